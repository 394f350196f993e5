// Two saturated TCP flows over one bottleneck, as a program for htsim: the counterpart of our benchmark scenario S1. Prints one
// JSON object: goodput of each flow, packets carried by the bottleneck, events and wall seconds.
//
// Usage: dumbbell SECONDS

#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

namespace
{

constexpr int PACKET_BYTES = 1500;
constexpr double ACCESS_MBPS = 1000.0;
constexpr double BOTTLENECK_MBPS = 100.0;
constexpr int ACCESS_PACKETS = 1000;
constexpr int BOTTLENECK_PACKETS = 100;
constexpr int ACCESS_MS = 1;
constexpr int BOTTLENECK_MS = 10;
constexpr int TIMER_MS = 10;
constexpr int FLOWS = 2;
constexpr int START_INTERVAL_MS = 100;

// A direction of a link: a queue with a transmitter, and the delay.
class Link : public Queue
{
  public:
    Link(double mbps, int packets, int delayMs, EventList& events)
        : Queue(speedFromMbps(mbps), memFromPkt(packets), events, nullptr), m_pipe(timeFromMs(delayMs), events)
    {
    }

    void AppendTo(Route& route)
    {
        route.push_back(this);
        route.push_back(&m_pipe);
    }

    std::uint64_t Carried() const
    {
        return m_carried;
    }

  protected:
    void completeService() override
    {
        ++m_carried;
        Queue::completeService();
    }

  private:
    Pipe m_pipe;
    std::uint64_t m_carried = 0;
};

// A flow with its access links in both directions.
struct Flow
{
    explicit Flow(EventList& events)
        : toRouter(ACCESS_MBPS, ACCESS_PACKETS, ACCESS_MS, events),
          toSink(ACCESS_MBPS, ACCESS_PACKETS, ACCESS_MS, events),
          fromSink(ACCESS_MBPS, ACCESS_PACKETS, ACCESS_MS, events),
          toSource(ACCESS_MBPS, ACCESS_PACKETS, ACCESS_MS, events),
          source(nullptr, nullptr, events)
    {
    }

    void Start(Link& forward, Link& reverse, int startMs)
    {
        toRouter.AppendTo(out);
        forward.AppendTo(out);
        toSink.AppendTo(out);
        out.push_back(&sink);
        fromSink.AppendTo(back);
        reverse.AppendTo(back);
        toSource.AppendTo(back);
        back.push_back(&source);
        source.connect(out, back, sink, timeFromMs(startMs));
    }

    Link toRouter, toSink, fromSink, toSource;
    TcpSrc source;
    TcpSink sink;
    Route out, back;
};

} // namespace

int
main(int argc, char* argv[])
{
    const double seconds = argc > 1 ? std::atof(argv[1]) : 300.0;
    Packet::set_packet_size(PACKET_BYTES);
    EventList events;
    events.setEndtime(timeFromSec(seconds));
    TcpRtxTimerScanner timers(timeFromMs(TIMER_MS), events);
    Link forward(BOTTLENECK_MBPS, BOTTLENECK_PACKETS, BOTTLENECK_MS, events);
    Link reverse(BOTTLENECK_MBPS, BOTTLENECK_PACKETS, BOTTLENECK_MS, events);
    std::vector<std::unique_ptr<Flow>> flows;
    for (int i = 0; i < FLOWS; ++i)
    {
        flows.emplace_back(new Flow(events));
        flows.back()->Start(forward, reverse, i * START_INTERVAL_MS);
        timers.registerTcp(flows.back()->source);
    }

    std::uint64_t count = 0;
    const auto begun = std::chrono::steady_clock::now();
    while (events.doNextEvent())
    {
        ++count;
    }
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;

    // The library prints remarks on the standard output, too: the object is on the last line.
    std::cout << "\n{\"goodput_bps\": [";
    for (int i = 0; i < FLOWS; ++i)
    {
        const double active = seconds - 1e-3 * i * START_INTERVAL_MS;
        std::cout << (i ? ", " : "") << flows[i]->source._last_acked * 8.0 / active;
    }
    std::cout << "], \"packets\": " << forward.Carried() << ", \"events\": " << count
              << ", \"wall_s\": " << wall.count() << "}" << std::endl;
    return 0;
}

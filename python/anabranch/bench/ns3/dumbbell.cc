// Two or more saturated New Reno flows over one bottleneck, as an ns-3 program: the counterpart of our own benchmark
// scenarios. Prints one JSON object: goodput of each flow, packets carried by the bottleneck, events and wall seconds.
//
// Usage: dumbbell --rate=100 --queue=100 --seconds=300 --flows=2

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

std::uint64_t g_carried = 0;

void
Carried(Ptr<const Packet>)
{
    ++g_carried;
}

void
SetDefaults()
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4000000));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4000000));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
}

NetDeviceContainer
Connect(Ptr<Node> a, Ptr<Node> b, const std::string& rate, const std::string& delay, std::uint32_t queue)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(std::to_string(queue) + "p"));
    return link.Install(a, b);
}

Ipv4InterfaceContainer
Number(const NetDeviceContainer& devices, Ipv4AddressHelper& addresses)
{
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    addresses.NewNetwork();
    // The device's own queue is the only one, as in our scenario.
    TrafficControlHelper().Uninstall(devices);
    return interfaces;
}

} // namespace

int
main(int argc, char* argv[])
{
    double rate = 100.0;
    std::uint32_t queue = 100;
    double seconds = 300.0;
    std::uint32_t flows = 2;
    CommandLine command;
    command.AddValue("rate", "rate of the bottleneck, Mbit/s", rate);
    command.AddValue("queue", "queue of the bottleneck, packets", queue);
    command.AddValue("seconds", "simulated time", seconds);
    command.AddValue("flows", "number of flows", flows);
    command.Parse(argc, argv);
    SetDefaults();

    NodeContainer routers(2);
    NodeContainer sources(flows);
    NodeContainer sinks(flows);
    InternetStackHelper().InstallAll();
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");

    const std::string bottleneckRate = std::to_string(static_cast<std::uint64_t>(rate * 1e6)) + "bps";
    NetDeviceContainer bottleneck = Connect(routers.Get(0), routers.Get(1), bottleneckRate, "10ms", queue);
    Number(bottleneck, addresses);
    bottleneck.Get(0)->TraceConnectWithoutContext("PhyTxEnd", MakeCallback(&Carried));

    std::vector<Ptr<PacketSink>> received;
    for (std::uint32_t i = 0; i < flows; ++i)
    {
        Number(Connect(sources.Get(i), routers.Get(0), "1Gbps", "1ms", 1000), addresses);
        Ipv4InterfaceContainer end =
            Number(Connect(routers.Get(1), sinks.Get(i), "1Gbps", "1ms", 1000), addresses);
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5000));
        ApplicationContainer sinkApplication = sink.Install(sinks.Get(i));
        sinkApplication.Start(Seconds(0));
        received.push_back(DynamicCast<PacketSink>(sinkApplication.Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(end.GetAddress(1), 5000));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(14480));
        source.Install(sources.Get(i)).Start(Seconds(0.1 * i));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(Seconds(seconds));
    const auto begun = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;

    std::cout << "{\"goodput_bps\": [";
    for (std::uint32_t i = 0; i < flows; ++i)
    {
        std::cout << (i ? ", " : "") << received[i]->GetTotalRx() * 8.0 / (seconds - 0.1 * i);
    }
    std::cout << "], \"packets\": " << g_carried << ", \"events\": " << Simulator::GetEventCount()
              << ", \"wall_s\": " << wall.count() << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}

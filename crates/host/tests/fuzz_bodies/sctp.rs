//! The fuzz target for two ends of SCTP or CMT-SCTP, where it differs from that for TCP.

use super::{Command, FuzzedHosts, Input, MAX_COMMANDS, Reached, ends_of};
use anabranch_base::rng::Rng;
use anabranch_base::time::Duration;
use anabranch_endpoint::{Endpoint, Reason, Reliability, Secrets, StreamChange, Write};
use anabranch_multipath::buffer::{Rescheduling, Sides, Splitting, SplittingOn};
use anabranch_multipath::congestion::{ALGORITHMS, Choice, Options};
use anabranch_multipath::scheduler::{self, SCHEDULERS};
use anabranch_sctp::{Association, Config, StreamScheduler};
use anabranch_wire::sctp::{Chunk, DataFlags, GapBlock, Outcome, Reconfiguration};
use anabranch_wire::seq::Serial;
use anabranch_wire::{Body, Packet};
use core::net::IpAddr;

fn settings(input: &mut Input<'_>) -> Config {
    let congestion = Choice { entry: input.pick(ALGORITHMS), options: Options::default() };
    let wanted = input.pick(SCHEDULERS);
    let schedule = if wanted.places { scheduler::find("round-robin").expect("listed") } else { wanted };
    let base = Config::new(congestion, schedule);
    let base = if input.flag() { base.with_cmt() } else { base };
    let sides = *input.pick(&[Sides::None, Sides::Sender, Sides::Receiver, Sides::Both]);
    base.send_buffer(2_000 + 4 * u64::from(input.word()))
        .receive_buffer(2_000 + 4 * u64::from(input.word()))
        .nr_sack(input.flag())
        .i_data(input.flag())
        .partial_reliability(true)
        .reconfiguration(true)
        .dac(input.flag())
        .nagle(input.flag())
        .overshoot(input.flag())
        .splitting(Splitting { sides, on: SplittingOn::Outstanding })
        .rescheduling(Rescheduling { sides, threshold: 0.3 })
        .stream_scheduler(*input.pick(&[
            StreamScheduler::Fcfs,
            StreamScheduler::RoundRobin,
            StreamScheduler::RoundRobinPacket,
        ]))
        .tail_loss_probe(input.flag())
        .potentially_failed_threshold(Some(0).filter(|_| input.flag()))
        .streams(4)
        .heartbeat_interval(Some(Duration::from_secs(5)))
}

/// Reliability of a message, chosen by its length; about half of the messages are fully reliable.
const fn reliability(len: u64) -> Reliability {
    let measure = len >> 8 & 7;
    match len >> 5 & 7 {
        0 => Reliability::Lifetime(Duration::from_millis(1 << measure)),
        1 => Reliability::Lifetime(Duration::from_millis(1_000 << measure)),
        2 => Reliability::Retransmissions(measure as u8),
        3 => Reliability::Priority(measure as u32),
        _ => Reliability::Full,
    }
}

/// A stream reset or addition, chosen by a number.
fn change(number: u64) -> StreamChange {
    let stream = (number >> 4 & 3) as u16;
    match number & 7 {
        0 | 1 => StreamChange::ResetOutgoing([stream].into()),
        2 => StreamChange::ResetOutgoing([].into()),
        3 | 4 => StreamChange::ResetIncoming([stream, (stream + 1) & 3].into()),
        5 => StreamChange::AddOutgoing(1 + stream),
        6 => StreamChange::AddIncoming(1 + stream),
        _ => StreamChange::ResetAll,
    }
}

/// The path of a packet: both ends have one address on each.
fn path_of(packet: &Packet) -> usize {
    match packet.destination {
        IpAddr::V4(address) => usize::from(address.octets()[1]) - 1,
        IpAddr::V6(_) => unreachable!("the ends have addresses of IPv4"),
    }
}

/// Removes one of several chunks: the receiver then sees the same as if the chunk had been lost.
fn cut(packet: &mut Packet, input: &mut Input<'_>) {
    let Body::Sctp(body) = &mut packet.body else { return };
    if body.chunks.len() > 1 {
        let at = usize::from(input.byte()) % body.chunks.len();
        body.chunks.list().remove(at);
    }
}

/// Forges one field or chunk of a packet.
fn forge(packet: &mut Packet, input: &mut Input<'_>) {
    let Body::Sctp(body) = &mut packet.body else { return };
    let by = u32::from(input.word());
    let at = usize::from(input.byte()) % body.chunks.len().max(1);
    match (by % 8, body.chunks.get_mut(at)) {
        (0, _) => body.verification_tag = body.verification_tag.wrapping_add(by >> 3),
        (1, Some(chunk)) => {
            let again = chunk.clone();
            body.chunks.push(again);
        }
        (_, Some(Chunk::Data(data))) => match by % 3 {
            0 => data.tsn = data.tsn.add(by % 50),
            1 => (data.stream, data.ssn) = (data.stream ^ (by as u16 & 7), data.ssn.wrapping_add(1)),
            _ => data.flags = DataFlags(by as u8 & 7),
        },
        (_, Some(Chunk::IData(data))) => match by % 3 {
            0 => data.tsn = data.tsn.add(by % 50),
            1 => data.ppid_or_fsn = data.ppid_or_fsn.wrapping_add(by & 3),
            _ => data.flags = DataFlags(by as u8 & 7),
        },
        (_, Some(Chunk::Sack(sack))) => match by % 3 {
            0 => sack.cumulative_tsn = sack.cumulative_tsn.add(by % 50),
            1 => sack.a_rwnd = by << 4,
            _ => sack.gaps.push(GapBlock::new(by as u16 % 9, by as u16 % 31)),
        },
        (_, Some(Chunk::NrSack(nr))) => match by % 3 {
            0 => nr.sack.cumulative_tsn = nr.sack.cumulative_tsn.add(by % 50),
            1 => nr.nr_gaps.push(GapBlock::new(by as u16 % 9, by as u16 % 31)),
            _ => nr.sack.gaps.push(GapBlock::new(by as u16 % 9, by as u16 % 31)),
        },
        (_, Some(Chunk::Reconfig(reconfig))) => {
            let request = Serial(by);
            reconfig.parameters.push(match by % 5 {
                0 => Reconfiguration::TsnReset { request },
                1 => Reconfiguration::AddOutgoing { request, count: by as u16 },
                2 => Reconfiguration::IncomingReset { request, streams: [].into() },
                _ => {
                    let next_tsns = (by & 1 == 0).then_some((request, request));
                    Reconfiguration::Response { response: request, outcome: Outcome(by % 7), next_tsns }
                }
            });
            reconfig.parameters.rotate_right(1);
        }
        (_, Some(Chunk::ForwardTsn(forward))) => forward.cumulative_tsn = forward.cumulative_tsn.add(by % 50),
        (_, Some(Chunk::IForwardTsn(forward))) => {
            forward.cumulative_tsn = forward.cumulative_tsn.add(by % 50);
        }
        (_, Some(Chunk::Init(init) | Chunk::InitAck(init))) => {
            init.initiate_tag = init.initiate_tag.wrapping_add(by & 1);
            init.a_rwnd = by << 3;
        }
        _ => body.chunks.list().clear(),
    }
}

/// The changes that the network may make to packets.
struct Network {
    /// True if the network may forge packets. Otherwise it only removes chunks.
    may_forge: bool,
    /// Paths on which the network drops all packets.
    dead: [bool; 2],
}

fn run_command(world: &mut FuzzedHosts, network: &mut Network, command: Command, input: &mut Input<'_>) {
    match command {
        Command::Mutate { to, place } => {
            let place = world.place(to, place);
            if let Some(packet) = world.on_the_way[to].get_mut(place) {
                if network.may_forge && input.flag() {
                    forge(packet, input);
                    world.is_unforged = false;
                } else {
                    cut(packet, input);
                }
            }
        }
        Command::Write { end, len } if len % 32 == 31 => {
            world.ends[end].change_streams(world.now, change(len >> 5));
            world.settle();
        }
        Command::Write { end, len } => {
            // A message of up to 16 kB; its length chooses the stream and whether it is unordered.
            let write = Write {
                stream: (len % 4) as u16,
                unordered: len & 16 != 0,
                reliability: reliability(len),
                ..Write::bytes(1 + len % 16_384)
            };
            let ledger =
                world.ledgers.as_mut().map(|ledgers| &mut ledgers[end]).expect("made with the world");
            let write = Write { ppid: ledger.next(), ..write };
            let accepted = world.ends[end].write(world.now, write);
            if accepted > 0 {
                ledger.wrote(write);
            }
            world.written[end] += accepted;
            world.settle();
        }
        Command::Address { path, up, .. } => network.dead[path] = !up,
        other => world.run_command(other, input),
    }
    for queue in &mut world.on_the_way {
        queue.retain(|packet| !network.dead[path_of(packet)]);
    }
}

/// Two ends of SCTP or CMT-SCTP under adversarial packets, dead paths, time steps and applications.
///
/// # Panics
/// If data is lost and its writer gets no error.
pub fn sctp_pair(data: &[u8]) -> Reached {
    let mut input = Input(data);
    let mut network = Network { may_forge: input.flag(), dead: [false; 2] };
    let config = settings(&mut input);
    // Data that fills a gap is accepted beyond the buffer, up to twice its size.
    let receive_buffer = 2 * config.receive_buffer;
    let secrets = Secrets::simulated(&mut Rng::new(input.word().into()));
    let [mut client, server] = ends_of(0);
    client.remote = server.local.iter().map(|own| own.ip).collect();
    let client =
        Association::connecting(config.clone(), &client, secrets.fork("client")).expect("good settings");
    let server = Association::listening(config, &server, secrets.fork("server")).expect("good settings");
    let ends: [Box<dyn Endpoint>; 2] = [Box::new(client), Box::new(server)];
    let mut world = FuzzedHosts::of(ends, receive_buffer);
    world.ledgers = Some(Default::default());
    world.ends[0].connect(world.now);
    world.settle();
    world.flow(input.byte() % 8);
    for _ in 0..MAX_COMMANDS {
        if input.0.is_empty() {
            break;
        }
        let command = Command::read(&mut input);
        run_command(&mut world, &mut network, command, &mut input);
    }
    let several_paths = world.ends[0].report().paths.iter().filter(|path| path.usable).count() > 1;
    world.finish();
    for end in [0, 1] {
        let error = world.closed[end].is_some_and(|reason| reason != Reason::Closed);
        assert!(
            !world.is_unforged || error || world.is_settled(end),
            "lost silently: {:?} written, {:?} read, {:?}",
            world.written,
            world.read,
            world.closed
        );
    }
    Reached { delivered: world.read != [0; 2], several_paths, mutated: !world.is_unforged }
}

/*
 * An SCTP endpoint over UDP with the library usrsctp, for the tests of real transfers.
 *
 * It sends the messages that it reads from standard input, and writes received messages to standard output. Each
 * message has a header of 12 bytes (stream, flags (1: unordered), payload protocol identifier, length;
 * big-endian, 2 + 2 + 4 + 4).
 * At the end of its input it waits until the other end shuts the association down.
 *
 * The other end may reset and add streams.
 *
 * With the argument FURTHER it asks the other end, during the transfer, to add that address to the association.
 *
 * FEATURES is a sum: 1 enables I-DATA; 2 requires authentication of user data, SACKs and heartbeats.
 *
 * usage: usrsctp-peer listen|connect FEATURES LOCAL PORT UDP-PORT REMOTE REMOTE-PORT REMOTE-UDP-PORT [FURTHER]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usrsctp.h>

enum { HEAD = 12, MAX_MESSAGE_BYTES = 1 << 20, MIDDLE_MESSAGE = 200 };

static void fail(const char *what) {
    fprintf(stderr, "usrsctp-peer: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Reads exactly `len` bytes of standard input; 0 at its end. */
static int read_all(unsigned char *to, size_t len) {
    return fread(to, 1, len, stdin) == len;
}

static struct sockaddr_in address(const char *text, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        fail(text);
    return address;
}

/* Sends the messages of standard input until its end. */
static void *send_messages(void *argument) {
    struct socket *association = argument;
    static unsigned char bytes[MAX_MESSAGE_BYTES];
    unsigned char head[HEAD];
    while (read_all(head, HEAD)) {
        uint16_t stream, flags;
        uint32_t ppid, len;
        memcpy(&stream, head, 2);
        memcpy(&flags, head + 2, 2);
        memcpy(&ppid, head + 4, 4);
        memcpy(&len, head + 8, 4);
        len = ntohl(len);
        if (len > MAX_MESSAGE_BYTES || !read_all(bytes, len)) {
            errno = EINVAL;
            fail("input");
        }
        struct sctp_sendv_spa how = {
            .sendv_flags = SCTP_SEND_SNDINFO_VALID,
            .sendv_sndinfo = {.snd_sid = ntohs(stream),
                              .snd_flags = ntohs(flags) & 1 ? SCTP_UNORDERED : 0,
                              .snd_ppid = ppid},
        };
        ssize_t sent;
        /* usrsctp returns EAGAIN while a reset of the stream is pending (RFC 6525). */
        do
            sent = usrsctp_sendv(association, bytes, len, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0);
        while (sent < 0 && errno == EAGAIN && usleep(1000) == 0);
        if (sent != (ssize_t)len)
            fail("send");
    }
    return NULL;
}

/* Writes received messages to standard output until the association ends; a long message may be received in several
   parts. */
static void receive_messages(struct socket *association, struct sockaddr_in *further) {
    static unsigned char bytes[MAX_MESSAGE_BYTES];
    size_t have = 0, messages = 0;
    for (;;) {
        struct sctp_rcvinfo info;
        struct sockaddr_in from;
        socklen_t from_len = sizeof from, info_len = sizeof info;
        unsigned int info_type = 0;
        int flags = 0;
        ssize_t len = usrsctp_recvv(association, bytes + have, MAX_MESSAGE_BYTES - have, (struct sockaddr *)&from, &from_len,
                                    &info, &info_len, &info_type, &flags);
        if (len < 0)
            fail("receive");
        if (len == 0)
            return;
        have += (size_t)len;
        if (!(flags & MSG_EOR))
            continue;
        if (info_type != SCTP_RECVV_RCVINFO) {
            errno = EINVAL;
            fail("no information about a message");
        }
        unsigned char head[HEAD];
        uint16_t stream = htons(info.rcv_sid), unordered = htons(info.rcv_flags & SCTP_UNORDERED ? 1 : 0);
        uint32_t total = htonl((uint32_t)have);
        memcpy(head, &stream, 2);
        memcpy(head + 2, &unordered, 2);
        memcpy(head + 4, &info.rcv_ppid, 4);
        memcpy(head + 8, &total, 4);
        if (fwrite(head, 1, HEAD, stdout) != HEAD || fwrite(bytes, 1, have, stdout) != have || fflush(stdout) != 0)
            fail("output");
        have = 0;
        if (++messages == MIDDLE_MESSAGE && further != NULL &&
            usrsctp_bindx(association, (struct sockaddr *)further, 1, SCTP_BINDX_ADD_ADDR) != 0)
            fail("bindx");
    }
}

static void set(struct socket *socket, int option, const void *value, socklen_t len, const char *name) {
    if (usrsctp_setsockopt(socket, IPPROTO_SCTP, option, value, len) != 0)
        fail(name);
}

int main(int argc, char **argv) {
    if (argc != 9 && argc != 10) {
        fprintf(stderr, "usage: %s listen|connect FEATURES LOCAL PORT UDP-PORT REMOTE REMOTE-PORT REMOTE-UDP-PORT [FURTHER]\n",
                argv[0]);
        return 2;
    }
    int listens = strcmp(argv[1], "listen") == 0;
    struct sockaddr_in local = address(argv[3], argv[4]), remote = address(argv[6], argv[7]), further;
    if (argc == 10)
        further = address(argv[9], argv[4]);

    usrsctp_init((uint16_t)atoi(argv[5]), NULL, NULL);
    usrsctp_sysctl_set_sctp_no_csum_on_loopback(0);
    usrsctp_sysctl_set_sctp_blackhole(2);

    struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (socket == NULL)
        fail("socket");
    const int on = 1, no_interleaving = 0;
    set(socket, SCTP_RECVRCVINFO, &on, sizeof on, "SCTP_RECVRCVINFO");
    struct sctp_assoc_value resets = {.assoc_id = SCTP_FUTURE_ASSOC,
                                      .assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_RESET_ASSOC_REQ |
                                                     SCTP_ENABLE_CHANGE_ASSOC_REQ};
    set(socket, SCTP_ENABLE_STREAM_RESET, &resets, sizeof resets, "SCTP_ENABLE_STREAM_RESET");
    if (atoi(argv[2]) & 2) {
        const uint8_t kinds[] = {0x00 /* DATA */, 0x03 /* SACK */, 0x40 /* I-DATA */, 0x04 /* HEARTBEAT */};
        for (size_t i = 0; i < sizeof kinds; i++) {
            struct sctp_authchunk wanted = {.sauth_chunk = kinds[i]};
            set(socket, SCTP_AUTH_CHUNK, &wanted, sizeof wanted, "SCTP_AUTH_CHUNK");
        }
    }
    if (atoi(argv[2]) & 1) {
        /* A receive buffer that never fills up. With a full buffer usrsctp drops the first fragment of a message, even
           where it fills the gap before all other data, so the association stalls (0.9.5; seen with 33 packets lost in a
           row and 130 kB out of order). */
        const int room = 4 << 20;
        if (usrsctp_setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof room) != 0)
            fail("SO_RCVBUF");
        /* I-DATA requires interleaved delivery between streams. */
        struct sctp_assoc_value idata = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1};
        const int by_stream = 2;
        set(socket, SCTP_FRAGMENT_INTERLEAVE, &by_stream, sizeof by_stream, "SCTP_FRAGMENT_INTERLEAVE");
        set(socket, 0x1206 /* SCTP_INTERLEAVING_SUPPORTED */, &idata, sizeof idata, "SCTP_INTERLEAVING_SUPPORTED");
    } else {
        set(socket, SCTP_FRAGMENT_INTERLEAVE, &no_interleaving, sizeof no_interleaving, "SCTP_FRAGMENT_INTERLEAVE");
    }
    if (!listens) {
        struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)atoi(argv[8]))};
        struct sockaddr_in any = {.sin_family = AF_INET};
        memcpy(&encapsulation.sue_address, &any, sizeof any);
        set(socket, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof encapsulation, "SCTP_REMOTE_UDP_ENCAPS_PORT");
    }
    if (usrsctp_bind(socket, (struct sockaddr *)&local, sizeof local) != 0)
        fail("bind");

    struct socket *association = socket;
    if (listens) {
        if (usrsctp_listen(socket, 1) != 0)
            fail("listen");
        fprintf(stderr, "listening\n");
        association = usrsctp_accept(socket, NULL, NULL);
        if (association == NULL)
            fail("accept");
    } else if (usrsctp_connect(socket, (struct sockaddr *)&remote, sizeof remote) != 0) {
        fail("connect");
    }

    pthread_t sender;
    if (pthread_create(&sender, NULL, send_messages, association) != 0)
        fail("thread");
    receive_messages(association, argc == 10 ? &further : NULL);
    pthread_join(sender, NULL);
    usrsctp_close(association);
    return 0;
}

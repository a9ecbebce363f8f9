/*
 * A model for spin of relays, slots and credits (src/relay/relay.h).
 * test/model/relay.sh checks it exhaustively.
 *
 * Each rank has OUT out-slots and IN in-slots, and may begin at any time. Each
 * flow has CHUNKS chunks and goes from one rank to another, over up to two
 * relays. In a slot, in a ring and on a channel, a chunk is represented by the
 * number of its flow.
 *
 * credit   no rank has more chunks in its slots than it has slots (assert)
 * end      when no further step is possible, every chunk has arrived and every
 *          slot is free (Last)
 *
 * Steps cannot be undone, so there are no cycles, and the end is well defined.
 */
#ifndef CHUNKS
#define CHUNKS 2
#endif
#ifndef OUT
#define OUT 1
#endif
#ifndef IN
#define IN 2
#endif
#define NONE 255

/* By default, ranks 0 and 1 of one node relay for each other, to and from rank
 * 2 of another node. With CROSS, there are two senders and two receivers, each
 * on its own node. */
#ifdef CROSS
#define RANKS 4
#define FLOWS 4
#define NODE(r) (r)
#else
#define RANKS 3
#define FLOWS 4
#define NODE(r) ((r) / 2)
#endif
#define PAIR(a, b) ((a) * RANKS + (b))

typedef Flow {
    byte from, via_out, via_in, to; /* ranks; NONE if there is no relay */
    byte left;                      /* chunks not yet filled */
    byte got;
};
Flow flow[FLOWS];
bool begun[RANKS];
byte out_free[RANKS] = OUT;
byte in_free[RANKS] = IN;
byte to_post[RANKS * RANKS];        /* receives to post on channel [from, to] */
byte posted[RANKS * RANKS];

chan ring[RANKS * RANKS] = [OUT + IN] of { byte };
chan sent[RANKS * RANKS] = [2 * OUT] of { byte };
chan arrived[RANKS * RANKS] = [IN] of { byte };

#define SENDER(f) (flow[f].via_out != NONE -> flow[f].via_out : flow[f].from)
#define RECEIVER(f) (flow[f].via_in != NONE -> flow[f].via_in : flow[f].to)
#define BARE(c) (to_post[c] > 0 && posted[c] == 0)

/* Rules of the protocol. relay.sh disables each rule in turn, and shows that
 * spin then finds an error. */
#ifdef NO_RESERVE
#define MAY_POST(me, x) true
#elif RANKS == 4
#define MAY_POST(me, x) (BARE(PAIR(x, me)) || !(BARE(PAIR(0, me)) || \
    BARE(PAIR(1, me)) || BARE(PAIR(2, me)) || BARE(PAIR(3, me))))
#else
#define MAY_POST(me, x) (BARE(PAIR(x, me)) || !(BARE(PAIR(0, me)) || \
    BARE(PAIR(1, me)) || BARE(PAIR(2, me))))
#endif
#ifdef NO_FREE
#define OUT_IS_SENT(r) skip
#else
#define OUT_IS_SENT(r) out_free[r]++
#endif

inline fill(me, f)
{
    flow[f].left--;
    out_free[me]--;
    if
    :: flow[f].via_out != NONE -> ring[PAIR(me, flow[f].via_out)] ! f
    :: else -> sent[PAIR(me, RECEIVER(f))] ! f
    fi
}

inline pop(me, x, f)
{
    ring[PAIR(x, me)] ? f;
    if
    :: flow[f].to == me -> flow[f].got++; in_free[x]++
    :: else -> sent[PAIR(me, RECEIVER(f))] ! f
    fi;
    f = 0
}

inline post(me, x)
{
    in_free[me]--;
    to_post[PAIR(x, me)]--;
    posted[PAIR(x, me)]++
}

inline receive(me, x, f)
{
    arrived[PAIR(x, me)] ? f;
    if
    :: flow[f].to == me -> flow[f].got++; in_free[me]++
    :: else -> ring[PAIR(me, flow[f].to)] ! f
    fi;
    f = 0
}

#define OF_FLOW(f) \
    :: atomic { begun[me] && flow[f].from == me && flow[f].left > 0 && \
        out_free[me] > 0 -> fill(me, f) }
#define OF_RANK(x) \
    :: atomic { begun[me] && nempty(ring[PAIR(x, me)]) -> pop(me, x, f) } \
    :: atomic { begun[me] && to_post[PAIR(x, me)] > 0 && in_free[me] > 0 && \
        MAY_POST(me, x) -> post(me, x) } \
    :: atomic { begun[me] && nempty(arrived[PAIR(x, me)]) -> \
        receive(me, x, f) }

proctype Rank(byte me)
{
    byte f;

    begun[me] = true;
end_idle:
    do
    OF_FLOW(0) OF_FLOW(1) OF_FLOW(2) OF_FLOW(3)
    OF_RANK(0) OF_RANK(1) OF_RANK(2)
#if RANKS > 3
    OF_RANK(3)
#endif
    od
}

/* A send completes when its receive does. */
#define DELIVERS(a, b) \
    :: atomic { posted[PAIR(a, b)] > 0 && nempty(sent[PAIR(a, b)]) -> \
        sent[PAIR(a, b)] ? f; posted[PAIR(a, b)]--; \
        arrived[PAIR(a, b)] ! f; OUT_IS_SENT(flow[f].from); \
        assert(out_free[flow[f].from] <= OUT); f = 0 }

proctype Net()
{
    byte f;

end_idle:
    do
    DELIVERS(0, 1) DELIVERS(0, 2) DELIVERS(1, 0) DELIVERS(1, 2)
    DELIVERS(2, 0) DELIVERS(2, 1)
#if RANKS > 3
    DELIVERS(0, 3) DELIVERS(2, 3)
#endif
    od
}

proctype Last()
{
    byte i;

    timeout;
    for (i : 0 .. FLOWS - 1) {
        assert(flow[i].got == CHUNKS)
    }
    for (i : 0 .. RANKS - 1) {
        assert(out_free[i] == OUT && in_free[i] == IN)
    }
}

inline add(n, a, o, i, b)
{
    flow[n].from = a; flow[n].via_out = o; flow[n].via_in = i; flow[n].to = b;
    flow[n].left = CHUNKS;
    to_post[PAIR(SENDER(n), RECEIVER(n))] =
        to_post[PAIR(SENDER(n), RECEIVER(n))] + CHUNKS
}

init
{
    atomic {
#ifdef CROSS
        add(0, 0, NONE, NONE, 1); add(1, 0, NONE, NONE, 3);
        add(2, 2, NONE, NONE, 3); add(3, 2, NONE, NONE, 1);
        run Rank(3);
#else
        add(0, 0, 1, NONE, 2); add(1, 1, 0, NONE, 2);
        add(2, 2, NONE, 0, 1); add(3, 2, NONE, 1, 0);
#endif
        run Rank(0); run Rank(1); run Rank(2); run Net(); run Last()
    }
}

/*
 * A model for spin of how a failed lane is closed and its work is replayed
 * (docs/failover.md). test/model/failover.sh checks it exhaustively.
 *
 * There are two ends and LANES lanes, each with up to EPOCHS epochs. Both ends
 * send active messages, and end 0 also a WRITE. An epoch of a lane may break at
 * any time. Packets in flight then arrive late or never, and completions are
 * not seen. Each end detects the break by itself, or learns of it from the
 * other end. Control messages may be lost, repeated and reordered: once sent, a
 * message may be received at any later time, or never.
 *
 * once   an active message is received once              (assert in take)
 * late   no WRITE arrives after its operation completed  (assert in take)
 * order  a WRITE is not replayed behind the message that a fence put after it
 *                                                        (assert in take)
 * end    when no further step is possible, everything has arrived (Last)
 *
 * Steps cannot be undone, so there are no cycles, and the end is well defined.
 */
#ifndef LANES
#define LANES 2
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif
#ifndef BREAKS
#define BREAKS 2 /* fewer than LANES * EPOCHS */
#endif
#ifndef AMS
#define AMS 2    /* active messages of end 0; end 1 sends one */
#endif
#define MSGS (AMS + 1)
#define WRITE AMS /* number of the WRITE among the requests of end 0 */

/* One end's view of a lane. */
#define UP 0
#define CLOSED 1  /* the device has returned all requests; nothing can arrive */
#define DRAINED 2 /* closed, and known to be closed at the other end */

typedef End {
    byte state[LANES];
    byte epoch[LANES];
    byte sent[LANES];      /* packets sent in this epoch */
    byte received[LANES];  /* active messages received in this epoch */
    byte where[MSGS];      /* 1 + lane * EPOCHS + epoch; 0: not sent */
    byte place[MSGS];      /* position among the packets of that epoch */
    bool done[MSGS];
    bool got[MSGS];        /* messages of the other end that have arrived */
};
End end[2];

/* One direction of a lane, in one epoch. */
typedef Epoch {
    bool gap;              /* a packet was lost, so later packets are dropped */
    byte taken;            /* packets accepted by the other end's device */
    bool closed;           /* FAIL and CONFIRM of the sender may arrive */
    byte result;           /* in CONFIRM: active messages received */
    bool requested;            /* a LANE_REQ for this epoch may arrive */
    bool accepted;         /* a LANE_REP for this epoch may arrive */
};
typedef Epochs { Epoch at[EPOCHS] };
Epochs epochs[2 * LANES];
bool broken[LANES * EPOCHS];
byte breaks = BREAKS;

chan air[2 * LANES] = [MSGS] of { byte, byte }; /* epoch, message */

#define S(e, l) end[e].state[l]
#define P(e, l) end[e].epoch[l]
#define W(e, l, p) epochs[(e) * LANES + (l)].at[p]
#define NOW(e, l) W(e, l, P(me, l)) /* in the epoch of `me` */
#define HERE(e, l) (1 + (l) * EPOCHS + P(e, l))
#define IS_WRITE(e, m) ((e) == 0 && (m) == WRITE)
#define UNSENT(e, m) (end[e].where[m] == 0 && !end[e].done[m])

/* With a fence, the last message is sent after the WRITE is complete, or behind
 * it in the same epoch of a lane, which keeps the order. */
#define FENCED(e, l, m) ((e) == 0 && (m) == AMS - 1 && !end[0].done[WRITE] && \
                         end[0].where[WRITE] != HERE(0, l))

/* Rules of the protocol. failover.sh disables each rule in turn, and shows that
 * spin then finds an error. */
#ifdef NO_EVIDENCE
#define KNOWN(n) false
#else
#define KNOWN(n) ((n) > 0)
#endif
#ifdef NO_COUNT
#define COUNTED(n) false
#else
#define COUNTED(n) ((n) > 0)
#endif
#ifdef NO_CONFIRM
#define CONFIRMED(l) true
#else
#define CONFIRMED(l) NOW(1 - me, l).closed
#endif
#ifdef NO_FENCE
#undef FENCED
#define FENCED(e, l, m) false
#endif

/* A packet that can no longer be accepted is not put into the channel, and
 * drained packets are removed. This keeps the state space small. */
inline send(me, l, m)
{
    end[me].where[m] = HERE(me, l);
    end[me].place[m] = end[me].sent[l];
    end[me].sent[l]++;
    if
    :: !NOW(me, l).gap && P(1 - me, l) == P(me, l) && S(1 - me, l) == UP ->
        air[me * LANES + l] ! P(me, l), m
    :: else
    fi
}

inline clear(e, l, p, m)
{
    do
    :: air[(e) * LANES + l] ? p, m
    :: empty(air[(e) * LANES + l]) -> break
    od;
    p = 0; m = 0
}

/* The first packet in flight reaches the device of `me`. */
inline take(me, l, p, m)
{
    air[(1 - me) * LANES + l] ? p, m;
    if
    :: P(me, l) == p && S(me, l) == UP && !W(1 - me, l, p).gap ->
        W(1 - me, l, p).taken++;
        if
        :: IS_WRITE(1 - me, m) ->
            assert(!end[0].done[WRITE]);  /* late */
            assert(!end[1].got[AMS - 1])  /* order */
        :: else ->
            assert(!end[me].got[m]);      /* once */
            end[me].got[m] = true;
            end[me].received[l]++
        fi
    :: else
    fi;
    p = 0; m = 0
}

/* The completion of the WRITE. Completions of messages are not modelled,
 * because no end waits for them. */
#define COMPLETES(l) \
    (me == 0 && end[0].where[WRITE] == HERE(0, l) && \
     end[0].place[WRITE] < NOW(0, l).taken)

inline complete(me, m)
{
    end[me].done[m] = true;
    end[me].where[m] = 0;
    end[me].place[m] = 0
}

inline close(me, l, p, m)
{
    S(me, l) = CLOSED;
    NOW(me, l).closed = true;
    NOW(me, l).result = end[me].received[l];
    end[me].received[l] = 0;
    clear(1 - me, l, p, m)
}

/* The other end has received `n` active messages of that epoch and receives no
 * more. Later messages are replayed, and so are WRITEs whose completion was not
 * seen. */
inline drain(me, l, n, i, m)
{
    n = NOW(1 - me, l).result;
    i = 0;
    do
    :: i < end[me].sent[l] ->
        m = 0;
        do
        :: m < MSGS && !(end[me].where[m] == HERE(me, l) &&
                         end[me].place[m] == i) -> m++
        :: else -> break
        od;
        if
        :: m == MSGS  /* complete and forgotten */
        :: m < MSGS && IS_WRITE(me, m) ->
            /* A message behind the WRITE has arrived, so the WRITE has arrived
             * as well. */
            if
            :: KNOWN(n) -> complete(me, m)
            :: else ->
                end[me].where[m] = 0;
                end[me].place[m] = 0
            fi
        :: m < MSGS && !IS_WRITE(me, m) && COUNTED(n) ->
            n--;
            complete(me, m)
        :: m < MSGS && !IS_WRITE(me, m) && !COUNTED(n) ->
            end[me].where[m] = 0;
            end[me].place[m] = 0
        fi;
        i++
    :: else -> break
    od;
    S(me, l) = DRAINED;
    end[me].sent[l] = 0;
    NOW(me, l).gap = true;
    NOW(me, l).taken = 0;
    n = 0; i = 0; m = 0
}

inline begin(me, l)
{
    P(me, l)++;
    S(me, l) = UP
}

#define NEXT(e, l) W(e, l, P(me, l) + 1)

/* The steps that end `me` may take on lane `l`. */
#define STEPS(l) \
    :: atomic { S(me, l) == UP && P(1 - me, l) >= P(me, l) && \
        UNSENT(me, 0) && !FENCED(me, l, 0) -> send(me, l, 0) } \
    :: atomic { S(me, l) == UP && P(1 - me, l) >= P(me, l) && me == 0 && \
        AMS > 1 && UNSENT(0, AMS - 1) && !UNSENT(0, 0) && \
        !FENCED(0, l, AMS - 1) -> send(me, l, AMS - 1) } \
    :: atomic { S(me, l) == UP && P(1 - me, l) >= P(me, l) && me == 0 && \
        UNSENT(0, WRITE) -> send(me, l, WRITE) } \
    :: atomic { len(air[(1 - me) * LANES + l]) > 0 -> take(me, l, p, m) } \
    :: atomic { S(me, l) == UP && COMPLETES(l) -> complete(0, WRITE) } \
    :: atomic { S(me, l) == UP && (broken[l * EPOCHS + P(me, l)] || \
        NOW(1 - me, l).closed) -> close(me, l, p, m) } \
    :: atomic { S(me, l) == CLOSED && CONFIRMED(l) -> \
        drain(me, l, n, i, m) } \
    :: atomic { S(me, l) == DRAINED && P(me, l) + 1 < EPOCHS && \
        !NEXT(me, l).requested -> NEXT(me, l).requested = true } \
    :: atomic { S(me, l) == DRAINED && P(me, l) + 1 < EPOCHS && \
        NEXT(1 - me, l).requested && !(me == 0 && NEXT(me, l).requested) -> \
        begin(me, l); NOW(me, l).accepted = true } \
    :: atomic { S(me, l) == DRAINED && P(me, l) + 1 < EPOCHS && \
        NEXT(1 - me, l).accepted -> begin(me, l) }

proctype Side(byte me)
{
    byte p, m, n, i;

end_idle:
    do
    STEPS(0)
#if LANES > 1
    STEPS(1)
#endif
#if LANES > 2
    STEPS(2)
#endif
    od
}

/* Faults that neither end could detect yet are left out. An epoch breaks only
 * after one end has begun it, and a packet is lost only when it is next to
 * arrive. The lanes are equivalent, so the first one that breaks is lane 0. */
#define BEGUN(l, p) (P(0, l) >= p || P(1, l) >= p)
#define FIRST(l) (l == 0 || breaks < BREAKS)
#define NEXT_IS(e, l, p) (air[(e) * LANES + l] ? [p, _])
#define FAULTS(l, p) \
    :: atomic { breaks > 0 && FIRST(l) && !broken[(l) * EPOCHS + p] && \
        BEGUN(l, p) -> breaks--; broken[(l) * EPOCHS + p] = true } \
    :: atomic { broken[(l) * EPOCHS + p] && NEXT_IS(0, l, p) -> \
        W(0, l, p).gap = true; clear(0, l, q, m) } \
    :: atomic { broken[(l) * EPOCHS + p] && NEXT_IS(1, l, p) -> \
        W(1, l, p).gap = true; clear(1, l, q, m) }

#if EPOCHS == 1
#define LANE_FAULTS(l) FAULTS(l, 0)
#elif EPOCHS == 2
#define LANE_FAULTS(l) FAULTS(l, 0) FAULTS(l, 1)
#else
#define LANE_FAULTS(l) FAULTS(l, 0) FAULTS(l, 1) FAULTS(l, 2)
#endif

proctype Net()
{
    byte q, m;

end_idle:
    do
    LANE_FAULTS(0)
#if LANES > 1
    LANE_FAULTS(1)
#endif
#if LANES > 2
    LANE_FAULTS(2)
#endif
    od
}

proctype Last()
{
    timeout;
    assert(end[1].got[0] && end[1].got[AMS - 1] && end[0].got[0] &&
           end[0].done[WRITE])
}

init
{
    atomic { run Side(0); run Side(1); run Net(); run Last() }
}

"""Tests every state transition of a queue pair, with each attribute present and
absent.

Source: ibv_modify_qp(3) (required attributes), InfiniBand Architecture
Specification volume 1, 11.2.5.2 "Modify Queue Pair", the table of required and
optional attributes. Any state may go to RESET and to ERR (10.3.1).
"""
import errno

import pyverbs.enums as e
from vlib import (INIT, RTR, RTS, End, check, main, qp_attr, refused, send_wr,
                  test, up)

RESET, TO_INIT, TO_RTR, TO_RTS, SQD, SQE, ERR = (
    e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR, e.IBV_QPS_RTS,
    e.IBV_QPS_SQD, e.IBV_QPS_SQE, e.IBV_QPS_ERR)
NAMES = ('RESET', 'INIT', 'RTR', 'RTS', 'SQD', 'SQE', 'ERR')

CUR = e.IBV_QP_CUR_STATE
ACCESS = e.IBV_QP_ACCESS_FLAGS
PKEY = e.IBV_QP_PKEY_INDEX
PORT = e.IBV_QP_PORT
Q = e.IBV_QP_QKEY
ALT = e.IBV_QP_ALT_PATH
MIG = e.IBV_QP_PATH_MIG_STATE
RNR = e.IBV_QP_MIN_RNR_TIMER
NOTIFY = e.IBV_QP_EN_SQD_ASYNC_NOTIFY

# (from, to): (required attributes, optional attributes)
RC_MOVES = {
    (RESET, TO_INIT): (PKEY | PORT | ACCESS, 0),
    (TO_INIT, TO_INIT): (0, PKEY | PORT | ACCESS),
    (TO_INIT, TO_RTR): (RTR[e.IBV_QPT_RC], ALT | ACCESS | PKEY),
    (TO_RTR, TO_RTS): (RTS[e.IBV_QPT_RC], CUR | ALT | ACCESS | RNR | MIG),
    (TO_RTS, TO_RTS): (0, CUR | ALT | ACCESS | RNR | MIG),
    (TO_RTS, SQD): (0, NOTIFY),
    (SQD, TO_RTS): (0, CUR | ALT | ACCESS | RNR | MIG),
    (SQD, SQD): (0, PORT | e.IBV_QP_AV | e.IBV_QP_TIMEOUT |
                 e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY |
                 e.IBV_QP_MAX_QP_RD_ATOMIC | e.IBV_QP_MAX_DEST_RD_ATOMIC |
                 ALT | ACCESS | PKEY | RNR | MIG),
}
UD_MOVES = {
    (RESET, TO_INIT): (PKEY | PORT | Q, 0),
    (TO_INIT, TO_INIT): (0, PKEY | PORT | Q),
    (TO_INIT, TO_RTR): (0, PKEY | Q),
    (TO_RTR, TO_RTS): (e.IBV_QP_SQ_PSN, CUR | Q),
    (TO_RTS, TO_RTS): (0, CUR | Q),
    (TO_RTS, SQD): (0, NOTIFY),
    (SQD, TO_RTS): (0, CUR | Q),
    (SQD, SQD): (0, PKEY | Q),
    (SQE, TO_RTS): (0, CUR | Q),
}
ATTRS = [1 << bit for bit in range(1, 21)]  # CUR_STATE .. DEST_QPN


class Mover:
    """A queue pair that can be moved to any state repeatedly."""

    def __init__(self, qp_type):
        self.type = qp_type
        self.end = End()
        self.qp = self.end.make_qp(qp_type)

    def modify(self, to, mask, cur=None):
        attr = qp_attr(to, self.end.gid, self.qp.qp_num)
        attr.cur_qp_state = self.state() if cur is None else cur
        self.qp.modify(attr, mask)

    def state(self):
        return self.qp.query(e.IBV_QP_STATE)[0].qp_state

    def bring_to(self, state):
        self.modify(RESET, e.IBV_QP_STATE)
        if state == RESET:
            return
        if state == ERR:
            self.modify(TO_INIT, e.IBV_QP_STATE | INIT[self.type])
            self.modify(ERR, e.IBV_QP_STATE)
            return
        up(self.qp, self.type, self.end.gid, self.qp.qp_num,
           to=min(state, TO_RTS))
        if state == SQD:
            self.modify(SQD, e.IBV_QP_STATE)
        elif state == SQE:
            self.to_sqe()
        check('state', NAMES[self.state()], NAMES[state])

    def to_sqe(self):
        """Moves a UD queue pair to SQE by a send with a local error."""
        from pyverbs.addr import AH
        from vlib import ah_attr
        wr = send_wr(self.end, sges=[self.end.sge(8, 0, lkey=0x7fffff00)])
        with AH(self.end.pd, attr=ah_attr(self.end.gid)) as ah:
            wr.set_wr_ud(ah, self.qp.qp_num, 1)
            self.qp.post_send(wr)
            for _ in range(100000):
                if self.end.scq.poll(1)[0]:
                    break


def matrix(qp_type, moves, states):
    mover = Mover(qp_type)
    count = 0
    with mover.end:
        for old in states:
            for new in range(len(NAMES)):
                count += one_move(mover, moves, old, new)
    return count


def must_be_refused(mover, old, new, mask):
    before = mover.state()
    refused(errno.EINVAL, mover.modify, new, mask)
    check('state after a rejected transition', NAMES[mover.state()], NAMES[before])


def one_move(mover, moves, old, new):
    """Tries one transition with every attribute. Returns the number of
    cases."""
    rule = (0, 0) if new in (RESET, ERR) else moves.get((old, new))
    name = f'{NAMES[old]} to {NAMES[new]}'
    every = e.IBV_QP_STATE | sum(ATTRS)
    mover.bring_to(old)
    try:
        if rule is None:
            must_be_refused(mover, old, new, e.IBV_QP_STATE)
            must_be_refused(mover, old, new, every)
            for attr in ATTRS:
                must_be_refused(mover, old, new, e.IBV_QP_STATE | attr)
            return len(ATTRS) + 2
        need, may = rule
        base = e.IBV_QP_STATE | need
        for attr in ATTRS:
            if need & attr:
                must_be_refused(mover, old, new, base & ~attr)
            elif not may & attr:
                must_be_refused(mover, old, new, base | attr)
        for extra in [0] + [a for a in ATTRS if may & a] + [may]:
            mover.bring_to(old)
            mover.modify(new, base | extra)
            check('state', NAMES[mover.state()], NAMES[new])
        return len(ATTRS) + 2
    except Exception as problem:
        raise AssertionError(f'{name}: {problem}') from problem


@test
def every_rc_move():
    matrix(e.IBV_QPT_RC, RC_MOVES,
           (RESET, TO_INIT, TO_RTR, TO_RTS, SQD, ERR))


@test
def every_ud_move():
    matrix(e.IBV_QPT_UD, UD_MOVES, range(len(NAMES)))


@test
def a_state_that_is_not_the_current_one_is_refused():
    mover = Mover(e.IBV_QPT_RC)
    with mover.end:
        for state in (TO_RTR, TO_RTS, SQD):
            mover.bring_to(state)
            for cur in range(len(NAMES)):
                if cur == state:
                    continue
                need = RTS[e.IBV_QPT_RC] if state == TO_RTR else 0
                refused(errno.EINVAL, mover.modify, TO_RTS,
                        e.IBV_QP_STATE | CUR | need, cur=cur)


@test
def states_that_do_not_exist_are_refused():
    mover = Mover(e.IBV_QPT_RC)
    with mover.end:
        for state in (7, 8, 255, 0x7fffffff):
            refused(errno.EINVAL, mover.modify, state, e.IBV_QP_STATE)


@test
def without_the_state_the_attributes_change():
    mover = Mover(e.IBV_QPT_RC)
    with mover.end:
        mover.bring_to(TO_RTS)
        attr = qp_attr(0, mover.end.gid, 0, min_rnr_timer=20)
        mover.qp.modify(attr, RNR)
        got = mover.qp.query(RNR)[0]
        check('min_rnr_timer', got.min_rnr_timer, 20)
        check('state', got.qp_state, TO_RTS)
        refused(errno.EINVAL, mover.qp.modify, attr, e.IBV_QP_DEST_QPN)


@test
def values_out_of_range_are_refused():
    """Each value lies just outside the range of its attribute."""
    mover = Mover(e.IBV_QPT_RC)
    invalid = {
        TO_RTR: [('path_mtu', 0), ('path_mtu', 6), ('dest_qp_num', 1 << 24),
                 ('max_dest_rd_atomic', 17), ('min_rnr_timer', 32)],
        TO_RTS: [('timeout', 32), ('retry_cnt', 8), ('rnr_retry', 8),
                 ('max_rd_atomic', 17)],
        TO_INIT: [('port_num', 0), ('port_num', 2), ('pkey_index', 1)]}
    masks = {TO_INIT: INIT, TO_RTR: RTR, TO_RTS: RTS}
    with mover.end:
        for state, values in invalid.items():
            for name, value in values:
                mover.bring_to(state - 1)
                attr = qp_attr(state, mover.end.gid, mover.qp.qp_num)
                setattr(attr, name, value)
                try:
                    refused(errno.EINVAL, mover.qp.modify, attr,
                            e.IBV_QP_STATE | masks[state][e.IBV_QPT_RC])
                except AssertionError as problem:
                    raise AssertionError(f'{name}={value}: {problem}') from None
                check('state', mover.state(), state - 1)


@test
def query_gives_what_modify_got():
    mover = Mover(e.IBV_QPT_RC)
    want = {'pkey_index': 0, 'port_num': 1, 'qp_access_flags': 7,
            'path_mtu': e.IBV_MTU_512, 'dest_qp_num': 0x123456,
            'rq_psn': 0xabcdef, 'sq_psn': 0x654321, 'max_rd_atomic': 3,
            'max_dest_rd_atomic': 5, 'min_rnr_timer': 6, 'timeout': 7,
            'retry_cnt': 4, 'rnr_retry': 2}
    with mover.end:
        for state, masks in ((TO_INIT, INIT), (TO_RTR, RTR), (TO_RTS, RTS)):
            attr = qp_attr(state, mover.end.gid, 0)
            for name, value in want.items():
                setattr(attr, name, value)
            mover.qp.modify(attr, e.IBV_QP_STATE | masks[e.IBV_QPT_RC])
        got, init = mover.qp.query(0x1fffff)
        for name, value in want.items():
            check(name, getattr(got, name), value)
        check('state', got.qp_state, TO_RTS)
        check('cur state', got.cur_qp_state, TO_RTS)
        check('sq_draining', got.sq_draining, 0)
        check('type', init.qp_type, e.IBV_QPT_RC)
        check('sq_sig_all', init.sq_sig_all, 1)
        check('gid', str(got.ah_attr.dgid), str(mover.end.gid))
        assert got.cap.max_send_wr >= 16 and init.cap.max_send_wr >= 16


@test
def reset_forgets_everything():
    mover = Mover(e.IBV_QPT_RC)
    with mover.end:
        mover.bring_to(TO_RTS)
        mover.modify(RESET, e.IBV_QP_STATE)
        refused(errno.EINVAL, mover.modify, TO_RTS,
                e.IBV_QP_STATE | RTS[e.IBV_QPT_RC])
        refused(errno.EINVAL, mover.qp.post_send, send_wr(mover.end))


main()

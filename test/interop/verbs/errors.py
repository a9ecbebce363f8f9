"""Tests failing work requests: the status at both ends, and the
consequences.

Source: ibv_poll_cq(3) (only wr_id, status, qp_num and vendor_err are valid in
a failed completion), InfiniBand Architecture Specification volume 1, 9.9
(requester and responder faults) and 11.6.2 (completion return status).
"""
import errno
import time

import pyverbs.enums as e
from pyverbs.mr import MR
from vlib import (ALL, LOCAL, Pair, QKEY, RTS, ah_attr, atomic_wr, check, main,
                  move, rdma_wr, refused, send_wr, test)
from pyverbs.addr import AH
from pyverbs.pd import PD
from pyverbs.wr import SGE, RecvWR

OK = e.IBV_WC_SUCCESS
FLUSH = e.IBV_WC_WR_FLUSH_ERR
LEN = e.IBV_WC_LOC_LEN_ERR
PROT = e.IBV_WC_LOC_PROT_ERR
REM_INV = e.IBV_WC_REM_INV_REQ_ERR
REM_ACCESS = e.IBV_WC_REM_ACCESS_ERR
REM_OP = e.IBV_WC_REM_OP_ERR
RETRY = e.IBV_WC_RETRY_EXC_ERR
RNR = e.IBV_WC_RNR_RETRY_EXC_ERR
WRITE, READ, SEND = (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ, e.IBV_WR_SEND)
WRITE_IMM = e.IBV_WR_RDMA_WRITE_WITH_IMM
FADD, CSWAP = (e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP)
NO_KEY = 0x7fffff42


def in_error(qp):
    check('state', qp.query(e.IBV_QP_STATE)[0].qp_state, e.IBV_QPS_ERR)


def fails(pair, wr, status, remote=None):
    """Checks that the request fails with `status`, that the queue pair enters
    the error state, and that the next request is flushed. `remote`: the status
    of the peer's receive 77, or None if that receive is flushed or was not
    posted."""
    pair.a.qp.post_send(wr)
    pair.ends(pair.a.scq, [(wr.wr_id, status)])
    in_error(pair.a.qp)
    pair.a.qp.post_send(send_wr(pair.a, wr_id=99))
    pair.ends(pair.a.scq, [(99, FLUSH)])
    if remote is not None:
        pair.ends(pair.b.rcq, [(77, remote)])
        in_error(pair.b.qp)


# ---- Local errors ----

def local_error(make_wr, status=PROT):
    with Pair() as pair:
        pair.recv(pair.b, 77)
        fails(pair, make_wr(pair), status)
        pair.nothing(pair.b.rcq)  # nothing may have been sent


@test
def send_with_a_wrong_lkey():
    local_error(lambda p: send_wr(p.a, sges=[p.a.sge(8, 0, NO_KEY)]))


@test
def send_from_after_the_end():
    local_error(lambda p: send_wr(p.a, sges=[p.a.sge(9, 65536 - 8)]))


@test
def send_from_before_the_start():
    local_error(lambda p: send_wr(p.a, sges=[SGE(p.a.addr() - 1, 8,
                                                 p.a.mr.lkey)]))


@test
def send_whose_address_wraps_around():
    local_error(lambda p: send_wr(p.a, sges=[SGE((1 << 64) - 4, 8,
                                                 p.a.mr.lkey)]))


@test
def send_with_a_key_of_another_domain():
    with Pair() as pair:
        other = MR(PD(pair.a.ctx), 4096, LOCAL)
        fails(pair, send_wr(pair.a, sges=[SGE(other.buf, 8, other.lkey)]),
              PROT)


@test
def send_with_a_second_sge_that_is_wrong():
    local_error(lambda p: send_wr(p.a, sges=[p.a.sge(8),
                                             p.a.sge(8, 0, NO_KEY)]))


@test
def send_from_memory_that_was_deregistered():
    with Pair() as pair:
        old = MR(pair.a.pd, 4096, LOCAL)
        wr = send_wr(pair.a, sges=[SGE(old.buf, 8, old.lkey)])
        old.close()
        fails(pair, wr, PROT)


@test
def what_was_sent_before_a_local_error_completes():
    with Pair(mr_access=ALL) as pair:
        for i in range(4):
            pair.recv(pair.b, 70 + i)
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i))
        pair.a.qp.post_send(send_wr(pair.a, wr_id=4,
                                    sges=[pair.a.sge(8, 0, NO_KEY)]))
        pair.ends(pair.a.scq, [(0, OK), (1, OK), (2, OK), (3, OK), (4, PROT)])
        pair.ends(pair.b.rcq, [(70 + i, OK) for i in range(4)])


def read_into(access, opcode=READ):
    with Pair() as pair:
        mr = MR(pair.a.pd, 4096, access)
        sges = [SGE(mr.buf, 8, mr.lkey)]
        if opcode == READ:
            wr = rdma_wr(pair.a, pair.b, READ, sges=sges)
        else:
            wr = atomic_wr(pair.a, pair.b, opcode, 1, sges=sges)
        fails(pair, wr, PROT)


@test
def read_into_memory_without_local_write():
    read_into(e.IBV_ACCESS_REMOTE_READ)


@test
def atomic_into_memory_without_local_write():
    read_into(0, FADD)


@test
def read_into_a_wrong_lkey():
    local_error(lambda p: rdma_wr(p.a, p.b, READ,
                                  sges=[p.a.sge(8, 0, NO_KEY)]))


@test
def ud_send_with_a_wrong_lkey_goes_to_sqe_and_back():
    with Pair(e.IBV_QPT_UD) as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            wr = send_wr(pair.a, wr_id=5, sges=[pair.a.sge(8, 0, NO_KEY)])
            wr.set_wr_ud(ah, pair.b.qp.qp_num, QKEY)
            pair.a.qp.post_send(wr)
            pair.ends(pair.a.scq, [(5, PROT)])
            check('state', pair.a.qp.query(e.IBV_QP_STATE)[0].qp_state,
                  e.IBV_QPS_SQE)
            request = send_wr(pair.a, wr_id=6)
            request.set_wr_ud(ah, pair.b.qp.qp_num, QKEY)
            pair.a.qp.post_send(request)
            pair.ends(pair.a.scq, [(6, FLUSH)])
            move(pair.a.qp, e.IBV_QPS_RTS, 0)
            pair.recv(pair.b, 7)
            pair.a.qp.post_send(request)
            pair.ends(pair.a.scq, [(6, OK)])
            pair.ends(pair.b.rcq, [(7, OK)])


# ---- The peer's receive ----

@test
def receive_that_is_too_short():
    with Pair() as pair:
        pair.recv(pair.b, 77, length=100)
        fails(pair, send_wr(pair.a, length=101), REM_INV, LEN)


@test
def receive_that_is_too_short_in_a_later_packet():
    with Pair() as pair:
        pair.recv(pair.b, 77, length=3000)
        pair.recv(pair.b, 78)
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1, length=8192))
        pair.ends(pair.a.scq, [(1, REM_INV)])
        pair.ends(pair.b.rcq, [(77, LEN), (78, FLUSH)])


@test
def receive_with_a_wrong_lkey():
    with Pair() as pair:
        pair.recv(pair.b, 77, sges=[pair.b.sge(100, 0, NO_KEY)])
        fails(pair, send_wr(pair.a), REM_OP, PROT)


@test
def receive_into_memory_without_local_write():
    with Pair(mr_access=e.IBV_ACCESS_REMOTE_READ) as pair:
        pair.recv(pair.b, 77)
        fails(pair, send_wr(pair.a), REM_OP, PROT)


@test
def receive_with_a_wrong_lkey_that_is_not_reached():
    """The key of an SGE into which nothing is written is not checked."""
    with Pair() as pair:
        pair.recv(pair.b, 77, sges=[pair.b.sge(64),
                                    pair.b.sge(100, 0, NO_KEY)])
        pair.a.qp.post_send(send_wr(pair.a, wr_id=3, length=64))
        pair.ends(pair.a.scq, [(3, OK)])
        pair.ends(pair.b.rcq, [(77, OK)])


# ---- Remote access ----

def remote_error(make_wr, status=REM_ACCESS, **kwargs):
    with Pair(**kwargs) as pair:
        pair.b.mr.write(b'.' * 64, 64)
        fails(pair, make_wr(pair), status)
        in_error(pair.b.qp)
        check('memory', pair.b.mr.read(64, 0), b'.' * 64)


def each_rdma(make, status=REM_ACCESS, **kwargs):
    for opcode in (WRITE, READ, FADD, CSWAP):
        try:
            remote_error(lambda p, op=opcode: make(p, op), status, **kwargs)
        except AssertionError as problem:
            raise AssertionError(f'opcode {opcode}: {problem}') from problem


def rdma(pair, opcode, **kwargs):
    if opcode in (FADD, CSWAP):
        return atomic_wr(pair.a, pair.b, opcode, 1, 2, **kwargs)
    return rdma_wr(pair.a, pair.b, opcode, length=8, **kwargs)


@test
def remote_operation_with_a_wrong_rkey():
    each_rdma(lambda p, op: rdma(p, op, rkey=NO_KEY))


@test
def remote_operation_after_the_end():
    each_rdma(lambda p, op: rdma(p, op, remote=65536))


@test
def remote_operation_before_the_start():
    each_rdma(lambda p, op: rdma(p, op, remote=-8))


@test
def remote_operation_over_the_end():
    for opcode in (WRITE, READ):
        remote_error(lambda p, op=opcode: rdma_wr(p.a, p.b, op, length=16,
                                                  remote=65536 - 8))


@test
def long_remote_operation_over_the_end():
    """The first packets would fit, but nothing may be written."""
    for opcode in (WRITE, READ):
        remote_error(lambda p, op=opcode: rdma_wr(p.a, p.b, op, length=65536,
                                                  remote=8))


@test
def remote_operation_in_memory_that_does_not_allow_it():
    each_rdma(lambda p, op: rdma(p, op), mr_access=LOCAL)


@test
def remote_write_needs_its_own_right():
    for opcode, access in (
            (WRITE, LOCAL | e.IBV_ACCESS_REMOTE_READ |
             e.IBV_ACCESS_REMOTE_ATOMIC),
            (READ, LOCAL | e.IBV_ACCESS_REMOTE_WRITE |
             e.IBV_ACCESS_REMOTE_ATOMIC),
            (FADD, LOCAL | e.IBV_ACCESS_REMOTE_WRITE |
             e.IBV_ACCESS_REMOTE_READ)):
        remote_error(lambda p, op=opcode: rdma(p, op), mr_access=access)


@test
def remote_operation_that_the_queue_pair_does_not_allow():
    """11.6.2: "the operation is not supported by this receive queue"."""
    each_rdma(lambda p, op: rdma(p, op), REM_INV, access=LOCAL)


@test
def remote_operation_with_a_key_of_another_domain():
    def make(pair, opcode):
        pair.other = MR(PD(pair.b.ctx), 4096, ALL)
        wr = rdma(pair, opcode, rkey=pair.other.rkey)
        if opcode in (FADD, CSWAP):
            wr.set_wr_atomic(pair.other.rkey, pair.other.buf, 1, 2)
        else:
            wr.set_wr_rdma(pair.other.rkey, pair.other.buf)
        return wr
    each_rdma(make)


@test
def remote_operation_in_memory_that_was_deregistered():
    def make(pair, opcode):
        old = MR(pair.b.pd, 4096, ALL)
        rkey, addr = old.rkey, old.buf
        old.close()
        wr = rdma(pair, opcode)
        if opcode in (FADD, CSWAP):
            wr.set_wr_atomic(rkey, addr, 1, 2)
        else:
            wr.set_wr_rdma(rkey, addr)
        return wr
    each_rdma(make)


@test
def misaligned_atomic():
    for opcode in (FADD, CSWAP):
        for offset in (1, 4, 7):
            remote_error(lambda p, op=opcode, off=offset:
                         rdma(p, op, remote=off), REM_INV)


@test
def zero_length_needs_no_key():
    """9.7.4.1.6: the R_Key of a zero-length RDMA is not checked."""
    with Pair() as pair:
        for opcode in (WRITE, READ):
            wr = rdma_wr(pair.a, pair.b, opcode, rkey=NO_KEY)
            wr.num_sge = 0
            pair.a.qp.post_send(wr)
            pair.ends(pair.a.scq, [(1, OK)])


# ---- Retries ----

@test
def a_peer_that_does_not_answer():
    with Pair(timeout=8, retry_cnt=2) as pair:
        pair.b.qp.close()
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.a.qp.post_send(send_wr(pair.a, wr_id=2))
        pair.ends(pair.a.scq, [(1, RETRY), (2, FLUSH)])
        in_error(pair.a.qp)


@test
def a_peer_that_has_no_receive():
    for retries in (0, 2):
        with Pair(rnr_retry=retries) as pair:
            pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
            pair.a.qp.post_send(send_wr(pair.a, wr_id=2))
            pair.ends(pair.a.scq, [(1, RNR), (2, FLUSH)])
            in_error(pair.a.qp)
            # RNR NAKs must not affect the peer's state.
            check('peer', pair.b.qp.query(e.IBV_QP_STATE)[0].qp_state,
                  e.IBV_QPS_RTS)


@test
def write_with_immediate_needs_a_receive():
    with Pair(rnr_retry=0) as pair:
        pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE_IMM, length=8))
        pair.ends(pair.a.scq, [(1, RNR)])


@test
def rnr_retry_7_waits_forever():
    """The receiver is unready for far longer than 7 times the RNR timer."""
    with Pair(rnr_retry=7, min_rnr_timer=1) as pair:
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.nothing(pair.a.scq, wait_s=0.1)
        pair.recv(pair.b, 77)
        pair.ends(pair.a.scq, [(1, OK)])
        pair.ends(pair.b.rcq, [(77, OK)])


@test
def the_local_ack_timeout_is_kept():
    """9.7.6.1.3: each attempt waits at least 4.096 us * 2^timeout and at most
    four times that (longer on a loaded machine)."""
    wait_s = 4.096e-6 * (1 << 12)
    with Pair(timeout=12, retry_cnt=3) as pair:
        pair.b.qp.close()
        begun = time.monotonic()
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.ends(pair.a.scq, [(1, RETRY)])
        took = time.monotonic() - begun
        assert 4 * wait_s <= took < 16 * wait_s + 2, f'{took} s'


@test
def timeout_0_is_none():
    with Pair(timeout=0, retry_cnt=0) as pair:
        pair.b.qp.close()
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.nothing(pair.a.scq, wait_s=0.3)


@test
def the_rnr_timer_is_kept():
    """9.7.5.2.8: no retry before the timer expires; code 20 is 10.24 ms."""
    with Pair(rnr_retry=1, min_rnr_timer=20) as pair:
        begun = time.monotonic()
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.ends(pair.a.scq, [(1, RNR)])
        took = time.monotonic() - begun
        assert 0.01024 <= took < 2, f'{took} s'


@test
def a_peer_in_error_does_not_answer():
    with Pair(timeout=8, retry_cnt=1) as pair:
        pair.recv(pair.b, 77)
        move(pair.b.qp, e.IBV_QPS_ERR, 0)
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.ends(pair.a.scq, [(1, RETRY)])
        pair.ends(pair.b.rcq, [(77, FLUSH)])


@test
def rights_of_the_queue_pair_can_be_taken_back():
    with Pair() as pair:
        pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, length=8))
        pair.ends(pair.a.scq, [(1, OK)])
        move(pair.b.qp, e.IBV_QPS_RTS, e.IBV_QP_ACCESS_FLAGS, access=LOCAL)
        fails(pair, rdma_wr(pair.a, pair.b, WRITE, length=8), REM_INV)


# ---- Flush ----

@test
def everything_is_flushed_in_order():
    with Pair() as pair:
        wrs = range(10, 26)
        for i in wrs:
            pair.recv(pair.a, 100 + i)
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i, flags=0))
        move(pair.a.qp, e.IBV_QPS_ERR, 0)
        pair.ends(pair.a.scq, [(i, FLUSH) for i in wrs])
        pair.ends(pair.a.rcq, [(100 + i, FLUSH) for i in wrs])


@test
def unsignalled_requests_are_flushed():
    """An error always produces a completion, even for an unsignalled request.
    The success of an unsignalled request does not."""
    with Pair(sig_all=0) as pair:
        pair.recv(pair.b, 70)
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1, flags=0))
        pair.ends(pair.b.rcq, [(70, OK)])
        pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, rkey=NO_KEY,
                                    wr_id=2, flags=0))
        pair.a.qp.post_send(send_wr(pair.a, wr_id=3, flags=0))
        pair.ends(pair.a.scq, [(2, REM_ACCESS), (3, FLUSH)])


@test
def flushed_completions_say_which_queue_pair():
    with Pair() as pair:
        pair.recv(pair.a, 1)
        move(pair.a.qp, e.IBV_QPS_ERR, 0)
        wc = pair.poll(pair.a.rcq)[0]
        check('qp_num', wc.qp_num, pair.a.qp.qp_num)
        check('status', wc.status, FLUSH)


@test
def posted_in_error_is_flushed():
    with Pair() as pair:
        move(pair.a.qp, e.IBV_QPS_ERR, 0)
        pair.recv(pair.a, 8)
        pair.a.qp.post_send(send_wr(pair.a, wr_id=9))
        pair.ends(pair.a.rcq, [(8, FLUSH)])
        pair.ends(pair.a.scq, [(9, FLUSH)])


@test
def after_reset_nothing_is_left():
    """Reset drops queued requests and completions. The pair is then usable
    again."""
    with Pair() as pair:
        pair.recv(pair.a, 1)
        move(pair.a.qp, e.IBV_QPS_ERR, 0)
        for qp in (pair.a.qp, pair.b.qp):
            move(qp, e.IBV_QPS_RESET, 0)
        pair.nothing(pair.a.rcq, pair.a.scq)
        pair.connect()
        pair.recv(pair.b, 77)
        pair.a.qp.post_send(send_wr(pair.a, wr_id=5))
        pair.ends(pair.a.scq, [(5, OK)])
        pair.ends(pair.b.rcq, [(77, OK)])


@test
def the_peers_receives_are_flushed_after_its_error():
    with Pair() as pair:
        for i in range(3):
            pair.recv(pair.b, 70 + i)
        fails(pair, rdma_wr(pair.a, pair.b, WRITE, rkey=NO_KEY), REM_ACCESS)
        pair.ends(pair.b.rcq, [(70 + i, FLUSH) for i in range(3)])


# ---- Rejected when posted ----

def cannot_post(qp, wr, why=errno.EINVAL):
    refused(why, qp.post_send, wr)


@test
def posting_in_a_wrong_state():
    """ibv_post_send(3) in RESET, INIT, RTR; ibv_post_recv(3) in RESET."""
    with Pair() as pair:
        for state in (e.IBV_QPS_RESET, e.IBV_QPS_INIT, e.IBV_QPS_RTR):
            move(pair.a.qp, e.IBV_QPS_RESET, 0)
            if state != e.IBV_QPS_RESET:
                from vlib import up
                up(pair.a.qp, pair.type, pair.b.gid, pair.b.qp.qp_num,
                   to=state)
                pair.recv(pair.a, 1)
            else:
                refused(errno.EINVAL, pair.a.qp.post_recv,
                        RecvWR(1, 1, [pair.a.sge(8)]))
            cannot_post(pair.a.qp, send_wr(pair.a))


@test
def send_queue_full():
    with Pair(wr=4) as pair:
        room = pair.a.qp.query(e.IBV_QP_CAP)[0].cap.max_send_wr
        for i in range(room):
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i))
        cannot_post(pair.a.qp, send_wr(pair.a, wr_id=99), errno.ENOMEM)
        for i in range(room):
            pair.recv(pair.b, i) if i < 4 else None
        pair.ends(pair.a.scq, [(i, OK) for i in range(room)])


@test
def receive_queue_full():
    with Pair(wr=4) as pair:
        room = pair.a.qp.query(e.IBV_QP_CAP)[0].cap.max_recv_wr
        for i in range(room):
            pair.recv(pair.a, i)
        refused(errno.ENOMEM, pair.recv, pair.a, 99)


@test
def too_many_sges():
    with Pair(sge=2) as pair:
        cannot_post(pair.a.qp, send_wr(pair.a, sges=[pair.a.sge(8)] * 3))
        refused(errno.EINVAL, pair.recv, pair.a, 1,
                sges=[pair.a.sge(8)] * 3)


@test
def too_much_inline():
    with Pair(inline=32) as pair:
        room = pair.a.qp.query(e.IBV_QP_CAP)[0].cap.max_inline_data
        flags = e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED
        cannot_post(pair.a.qp, send_wr(pair.a, length=room + 1, flags=flags),
                    (errno.EINVAL, errno.ENOMEM))
        for opcode in (READ,):
            cannot_post(pair.a.qp, rdma_wr(pair.a, pair.b, opcode, length=8,
                                           flags=flags))


@test
def an_sge_of_2_to_the_31():
    """The length of the SGE exceeds the port's max_msg_sz."""
    with Pair() as pair:
        assert pair.a.ctx.query_port(1).max_msg_sz < 1 << 31
        cannot_post(pair.a.qp, send_wr(pair.a, length=1 << 31))


@test
def opcodes_that_the_type_does_not_have():
    with Pair() as pair:
        for opcode in (e.IBV_WR_LOCAL_INV, e.IBV_WR_BIND_MW,
                       e.IBV_WR_SEND_WITH_INV, e.IBV_WR_TSO):
            cannot_post(pair.a.qp, send_wr(pair.a, opcode))
    with Pair(e.IBV_QPT_UD) as pair:
        for opcode in (WRITE, WRITE_IMM, READ, FADD, CSWAP):
            cannot_post(pair.a.qp, rdma_wr(pair.a, pair.b, opcode, length=8))


@test
def an_atomic_of_another_size():
    with Pair() as pair:
        for length in (4, 16):
            cannot_post(pair.a.qp, atomic_wr(pair.a, pair.b, FADD, 1,
                                             length=length))


@test
def reads_without_depth():
    """With max_rd_atomic 0, no READ may be outstanding."""
    with Pair(rd_atomic=0) as pair:
        cannot_post(pair.a.qp, rdma_wr(pair.a, pair.b, READ, length=8))
        cannot_post(pair.a.qp, atomic_wr(pair.a, pair.b, FADD, 1))


@test
def a_datagram_of_more_than_the_mtu():
    with Pair(e.IBV_QPT_UD) as pair:
        mtu = 128 << pair.a.ctx.query_port(1).active_mtu
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            wr = send_wr(pair.a, length=mtu + 1)
            wr.set_wr_ud(ah, pair.b.qp.qp_num, QKEY)
            cannot_post(pair.a.qp, wr)


main()

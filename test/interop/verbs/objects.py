"""Tests objects: the conditions for creating, using and destroying them.

Source: ibv_alloc_pd(3), ibv_reg_mr(3), ibv_rereg_mr(3), ibv_create_cq(3),
ibv_resize_cq(3), ibv_create_srq(3), ibv_modify_srq(3), ibv_query_srq(3),
ibv_create_qp(3), ibv_create_ah(3).
"""
import errno
import time
import mmap

import pyverbs.enums as e
from pyverbs.addr import AH, GID
from pyverbs.cq import CQ, CompChannel
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR
from vlib import (ALL, LOCAL, End, Pair, ah_attr, check, main, refused,
                  rdma_wr, send_wr, test)

OK = e.IBV_WC_SUCCESS
ENDLESS = 1 << 40


# ---- Memory regions ----

@test
def rights_that_need_local_write():
    with End() as end:
        for access in (e.IBV_ACCESS_REMOTE_WRITE, e.IBV_ACCESS_REMOTE_ATOMIC,
                       e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ):
            refused(errno.EINVAL, MR, end.pd, 4096, access)
        for access in (0, LOCAL, e.IBV_ACCESS_REMOTE_READ, ALL,
                       ALL | e.IBV_ACCESS_RELAXED_ORDERING):
            MR(end.pd, 4096, access).close()


@test
def rights_that_do_not_exist():
    with End() as end:
        for bit in (8, 9, 15, 19, 30):
            refused((errno.EINVAL, errno.EOPNOTSUPP), MR, end.pd, 4096,
                    LOCAL | 1 << bit)


@test
def memory_that_is_not_there():
    """The error is EFAULT, as from a device that pins the memory, or ENOMEM."""
    with End() as end:
        for addr, length in ((mmap.PAGESIZE, 4096), (0x7fff00000000, 4096),
                             (end.mr.buf, ENDLESS)):
            refused((errno.EFAULT, errno.ENOMEM), MR, end.pd, length, ALL,
                    address=addr)
        refused((errno.EINVAL, errno.EFAULT), MR, end.pd, 1 << 20, ALL,
                address=(1 << 64) - 4096)


@test
def a_region_of_no_bytes():
    """The key of an empty region does not give access to any byte."""
    with Pair() as pair:
        empty = MR(pair.b.pd, 0, ALL, address=pair.b.addr())
        wr = rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_WRITE, length=1,
                     rkey=empty.rkey)
        pair.a.qp.post_send(wr)
        pair.ends(pair.a.scq, [(1, e.IBV_WC_REM_ACCESS_ERR)])


@test
def keys_differ_and_do_not_come_back_soon():
    with End() as end:
        seen = set()
        for _ in range(1000):
            mr = MR(end.pd, 64, ALL)
            assert mr.rkey not in seen, f'key {mr.rkey:#x} was used before'
            seen.add(mr.rkey)
            mr.close()


@test
def rereg_is_refused_and_changes_nothing():
    with Pair() as pair:
        try:
            pair.b.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, None, 0, 0, LOCAL)
        except PyverbsError:
            pass
        else:
            raise AssertionError('rereg was not rejected')
        pair.a.qp.post_send(rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_WRITE))
        pair.ends(pair.a.scq, [(1, OK)])


@test
def dereg_while_a_read_is_answered():
    """The READ returns the data or is rejected; no other outcome is allowed."""
    with Pair(size=1 << 20) as pair:
        for _ in range(20):
            mr = MR(pair.b.pd, 1 << 20, ALL)
            mr.write(b'd' * 100, 100)
            wr = rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_READ, rkey=mr.rkey,
                         length=1 << 20)
            wr.set_wr_rdma(mr.rkey, mr.buf)
            pair.a.qp.post_send(wr)
            pair.a.scq.poll(0)
            mr.close()
            status = pair.poll(pair.a.scq)[0].status
            assert status in (OK, e.IBV_WC_REM_ACCESS_ERR), status
            if status != OK:
                return
        raise AssertionError('no READ was rejected')


# ---- Address handles ----

@test
def addresses_that_cannot_be_reached():
    with End() as end:
        for gid in ('fe80:0000:0000:0000:0000:0000:0000:0001',
                    '0000:0000:0000:0000:0000:ffff:0000:0000',
                    '0000:0000:0000:0000:0000:ffff:e000:0001'):
            refused(errno.EINVAL, AH, end.pd, attr=ah_attr(GID(gid)))
        attr = ah_attr(end.gid)
        attr.is_global = 0
        refused(errno.EINVAL, AH, end.pd, attr=attr)
        attr = ah_attr(end.gid)
        attr.port_num = 2
        refused(errno.EINVAL, AH, end.pd, attr=attr)
        attr = ah_attr(end.gid)
        attr.sgid_index = 1
        refused(errno.EINVAL, AH, end.pd, attr=attr)


# ---- Completion queues ----

@test
def sizes_of_completion_queues():
    with End() as end:
        most = end.ctx.query_device().max_cqe
        for cqe in (1, 2, 3, 100, most):
            cq = CQ(end.ctx, cqe)
            assert cq.cqe >= cqe, f'{cq.cqe} for {cqe}'
            cq.close()
        for cqe in (0, -1, most + 1):
            refused((errno.EINVAL, errno.ENOMEM), CQ, end.ctx, cqe)
        for vector in (-1, end.ctx.num_comp_vectors):
            refused(errno.EINVAL, CQ, end.ctx, 10, None, None, vector)


@test
def resizing_keeps_what_waits():
    with Pair() as pair:
        for i in range(8):
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_WRITE,
                                        wr_id=i))
        # Polling the other queues drives both ends, and leaves these
        # completions in place. The time is several ACK timeouts long, so a lost
        # packet has no effect.
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            pair.b.scq.poll(1)
            pair.a.rcq.poll(1)
        pair.poll(pair.a.scq, 1)
        refused(errno.EINVAL, pair.a.scq.resize, 0)
        refused(errno.EINVAL, pair.a.scq.resize, 3)
        pair.a.scq.resize(500)
        assert pair.a.scq.cqe >= 500
        pair.a.scq.resize(8)
        pair.ends(pair.a.scq, [(i, OK) for i in range(1, 8)])


@test
def an_overrun_is_reported():
    """The device raises IBV_EVENT_CQ_ERR."""
    with Pair(cqe=4, wr=64) as pair:
        room = pair.a.scq.cqe
        for i in range(room + 1):
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_WRITE,
                                        wr_id=i))
        event = pair.a.ctx.get_async_event()
        check('event', event.event_type, e.IBV_EVENT_CQ_ERR)
        event.ack()


# ---- Shared receive queues ----

@test
def sizes_of_shared_queues():
    with End() as end:
        attr = end.ctx.query_device()
        for max_wr, max_sge, valid in (
                (1, 1, True), (attr.max_srq_wr, 1, True),
                (16, attr.max_srq_sge, True), (0, 1, False),
                (attr.max_srq_wr + 1, 1, False),
                (16, attr.max_srq_sge + 1, False)):
            init = SrqInitAttr(SrqAttr(max_wr, max_sge))
            if valid:
                srq = SRQ(end.pd, init)
                got = srq.query()
                assert got.max_wr >= max_wr and got.max_sge >= max_sge
                check('limit', got.srq_limit, 0)
                srq.close()
            else:
                refused((errno.EINVAL, errno.ENOMEM), SRQ, end.pd, init)


@test
def a_shared_queue_fills():
    with End() as end:
        srq = end.make_srq(max_wr=4, max_sge=1)
        room = srq.query().max_wr
        for i in range(room):
            srq.post_recv(RecvWR(i, 1, [end.sge(8)]))
        refused(errno.ENOMEM, srq.post_recv, RecvWR(9, 1, [end.sge(8)]))
        refused((errno.EINVAL, errno.ENOMEM), srq.post_recv,
                RecvWR(9, 5, [end.sge(8)] * 5))


@test
def resizing_a_shared_queue_keeps_what_is_posted():
    with Pair(srq=True) as pair:
        for i in range(8):
            pair.recv(pair.b, i)
        refused(errno.EINVAL, pair.b.srq.modify, SrqAttr(max_wr=4),
                e.IBV_SRQ_MAX_WR)
        pair.b.srq.modify(SrqAttr(max_wr=100), e.IBV_SRQ_MAX_WR)
        assert pair.b.srq.query().max_wr >= 100
        for i in range(8):
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i))
        pair.ends(pair.b.rcq, [(i, OK) for i in range(8)])


@test
def a_wrong_change_changes_nothing():
    """ibv_modify_srq(3): on an error, "none of the attributes will be
    modified"."""
    with End() as end:
        srq = end.make_srq(max_wr=16)
        before = srq.query()
        refused(errno.EINVAL, srq.modify, SrqAttr(100, 1, 101),
                e.IBV_SRQ_MAX_WR | e.IBV_SRQ_LIMIT)
        refused((errno.EINVAL, errno.ENOMEM), srq.modify,
                SrqAttr(1 << 30, 1, 5), e.IBV_SRQ_MAX_WR | e.IBV_SRQ_LIMIT)
        refused(errno.EINVAL, srq.modify, SrqAttr(32, 1, 1), 1 << 5)
        after = srq.query()
        check('max_wr', after.max_wr, before.max_wr)
        check('limit', after.srq_limit, before.srq_limit)


@test
def the_limit_is_reported_once():
    with Pair(srq=True) as pair:
        for i in range(6):
            pair.recv(pair.b, i)
        pair.b.srq.modify(SrqAttr(srq_limit=4), e.IBV_SRQ_LIMIT)
        check('limit', pair.b.srq.query().srq_limit, 4)
        for i in range(2):
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i))
            pair.poll(pair.b.rcq)
        check('4 are left: armed', pair.b.srq.query().srq_limit, 4)
        for i in range(2):
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i))
            pair.poll(pair.b.rcq)
        event = pair.b.ctx.get_async_event()
        check('event', event.event_type, e.IBV_EVENT_SRQ_LIMIT_REACHED)
        event.ack()
        check('no longer armed', pair.b.srq.query().srq_limit, 0)


# ---- Queue pairs ----

@test
def sizes_are_reported():
    """ibv_create_qp(3): the call returns the actual values, which are at least
    those requested."""
    with End() as end:
        cap = QPCap(5, 6, 2, 3, 40)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=end.scq, rcq=end.rcq,
                          cap=cap)
        qp = QP(end.pd, init)
        got = qp.query(e.IBV_QP_CAP)[0].cap
        for name, least in (('max_send_wr', 5), ('max_recv_wr', 6),
                            ('max_send_sge', 2), ('max_recv_sge', 3),
                            ('max_inline_data', 40)):
            assert getattr(got, name) >= least, name
            assert getattr(init.cap, name) == getattr(got, name), name


@test
def with_an_srq_receive_sizes_are_ignored():
    with End() as end:
        end.make_srq()
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=end.scq, rcq=end.rcq,
                          srq=end.srq, cap=QPCap(1, 1 << 30, 1, 1 << 20, 0))
        qp = QP(end.pd, init)
        refused(errno.EINVAL, qp.post_recv, RecvWR(1, 1, [end.sge(8)]))


@test
def objects_of_another_device():
    with End() as end, End('soft1') as other:
        for scq, rcq in ((other.scq, end.rcq), (end.scq, other.rcq)):
            refused(errno.EINVAL, QP, end.pd, QPInitAttr(
                qp_type=e.IBV_QPT_RC, scq=scq, rcq=rcq,
                cap=QPCap(1, 1, 1, 1, 0)))
        other.make_srq()
        refused(errno.EINVAL, QP, end.pd, QPInitAttr(
            qp_type=e.IBV_QPT_RC, scq=end.scq, rcq=end.rcq, srq=other.srq,
            cap=QPCap(1, 1, 1, 1, 0)))
        channel = CompChannel(other.ctx)
        refused(errno.EINVAL, CQ, end.ctx, 10, None, channel)


@test
def a_completion_queue_can_be_both():
    with End() as end:
        qp = end.make_qp(scq=end.scq, rcq=end.scq)
        assert qp.qp_num > 1


@test
def destroying_removes_only_own_completions():
    """As with the usual drivers, completions of other queue pairs remain."""
    with Pair() as pair:
        second = pair.b.make_qp(scq=pair.b.scq, rcq=pair.b.rcq)
        assert second.qp_num != pair.b.qp.qp_num
        pair.recv(pair.b, 5)
        pair.a.qp.post_send(send_wr(pair.a))
        pair.ends(pair.a.scq, [(1, OK)])
        second.close()
        pair.ends(pair.b.rcq, [(5, OK)])


main()

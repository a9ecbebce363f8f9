"""Helpers shared by the pyverbs tests: result lines and pairs of queue pairs.

Both ends of a pair are in this process, each with its own device context.
Waiting for one end polls both. A test is a function decorated with @test, and
its result line shows its name. The expected behaviour is taken from the manual
pages ibv_*(3) and the InfiniBand specification, never from src/softroce.
"""
import errno
import sys
import time
import traceback

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

LOCAL = e.IBV_ACCESS_LOCAL_WRITE
ALL = (LOCAL | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_WRITE |
       e.IBV_ACCESS_REMOTE_ATOMIC)
QKEY = 0x11223344
WAIT_S = 10

_tests = []


def test(func):
    _tests.append(func)
    return func


def main():
    """Runs all tests in the file. The exit status is 0 if all pass."""
    failed = 0
    for func in _tests:
        try:
            func()
        except Exception as problem:  # any exception fails only this test
            failed += 1
            traceback.print_exc(file=sys.stdout, limit=-4)
            print(f'not ok - {func.__name__}: '
                  f'{type(problem).__name__} {problem}', flush=True)
        else:
            print(f'ok - {func.__name__}', flush=True)
    sys.exit(1 if failed else 0)


def check(what, got, want):
    assert got == want, f'{what}: {got}, not {want}'


def refused(want, func, *args, **kwargs):
    """Checks that func() fails with one of the errno values in `want`."""
    want = want if isinstance(want, tuple) else (want,)
    try:
        func(*args, **kwargs)
    except PyverbsRDMAError as problem:
        got = abs(problem.error_code or 0)
        names = [errno.errorcode.get(w, w) for w in want]
        assert got in want, (f'{problem}: {errno.errorcode.get(got, got)}, '
                             f'not {names}')
        return
    raise AssertionError(f'{func.__name__}{args} was not rejected')


def status_name(status):
    names = {getattr(e, n): n for n in dir(e)
             if n.startswith('IBV_WC_') and n.endswith(('_ERR', 'SUCCESS'))}
    return names.get(status, status)


class End:
    """An open device with the objects that every test needs."""

    def __init__(self, dev='soft0', cqe=256, size=65536, access=ALL):
        self.ctx = Context(name=dev)
        self.pd = PD(self.ctx)
        self.scq = CQ(self.ctx, cqe)
        self.rcq = CQ(self.ctx, cqe)
        self.mr = MR(self.pd, size, access)
        self.gid = self.ctx.query_gid(1, 0)
        self.qp = None
        self.srq = None

    def addr(self, offset=0):
        return self.mr.buf + offset

    def sge(self, length, offset=0, lkey=None):
        return SGE(self.addr(offset), length,
                   self.mr.lkey if lkey is None else lkey)

    def make_srq(self, max_wr=16, max_sge=4):
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr, max_sge)))
        return self.srq

    def make_qp(self, qp_type=e.IBV_QPT_RC, wr=16, sge=4, inline=64,
                sig_all=1, recv_wr=None, **kwargs):
        cap = QPCap(wr, wr if recv_wr is None else recv_wr, sge, sge, inline)
        attr = QPInitAttr(qp_type=qp_type, scq=kwargs.get('scq', self.scq),
                          rcq=kwargs.get('rcq', self.rcq), srq=self.srq,
                          cap=cap, sq_sig_all=sig_all)
        qp = QP(self.pd, attr)
        if self.qp is None:
            self.qp = qp
        return qp

    def close(self):
        self.ctx.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def ah_attr(gid, **kwargs):
    route = GlobalRoute(dgid=gid, sgid_index=0, hop_limit=64, **kwargs)
    return AHAttr(port_num=1, is_global=1, gr=route)


INIT = {e.IBV_QPT_RC: (e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT |
                       e.IBV_QP_ACCESS_FLAGS),
        e.IBV_QPT_UD: e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_QKEY}
RTR = {e.IBV_QPT_RC: (e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN |
                      e.IBV_QP_RQ_PSN | e.IBV_QP_MAX_DEST_RD_ATOMIC |
                      e.IBV_QP_MIN_RNR_TIMER),
       e.IBV_QPT_UD: 0}
RTS = {e.IBV_QPT_RC: (e.IBV_QP_SQ_PSN | e.IBV_QP_MAX_QP_RD_ATOMIC |
                      e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY |
                      e.IBV_QP_TIMEOUT),
       e.IBV_QPT_UD: e.IBV_QP_SQ_PSN}


def qp_attr(state, gid, dest_qpn, **kwargs):
    """Returns attributes that are valid for every state transition."""
    attr = QPAttr(qp_state=state, cur_qp_state=0, port_num=1)
    attr.pkey_index = 0
    attr.qkey = QKEY
    attr.qp_access_flags = kwargs.get('access', ALL)
    attr.path_mtu = kwargs.get('mtu', e.IBV_MTU_1024)
    attr.dest_qp_num = dest_qpn
    attr.rq_psn = kwargs.get('rq_psn', 100)
    attr.sq_psn = kwargs.get('sq_psn', 100)
    attr.max_dest_rd_atomic = kwargs.get('rd_atomic', 4)
    attr.max_rd_atomic = kwargs.get('rd_atomic', 4)
    attr.min_rnr_timer = kwargs.get('min_rnr_timer', 1)
    attr.timeout = kwargs.get('timeout', 14)
    attr.retry_cnt = kwargs.get('retry_cnt', 7)
    attr.rnr_retry = kwargs.get('rnr_retry', 7)
    if gid is not None:
        attr.ah_attr = ah_attr(gid)
    return attr


def move(qp, state, mask, gid=None, dest_qpn=0, **kwargs):
    qp.modify(qp_attr(state, gid, dest_qpn, **kwargs), e.IBV_QP_STATE | mask)


def up(qp, qp_type, gid, dest_qpn, to=e.IBV_QPS_RTS, **kwargs):
    """Moves a queue pair from RESET to INIT, RTR or RTS."""
    steps = ((e.IBV_QPS_INIT, INIT), (e.IBV_QPS_RTR, RTR),
             (e.IBV_QPS_RTS, RTS))
    for state, masks in steps:
        move(qp, state, masks[qp_type], gid, dest_qpn, **kwargs)
        if state == to:
            break


class Pair:
    """Two connected RC queue pairs, or two UD queue pairs, as .a and .b."""

    def __init__(self, qp_type=e.IBV_QPT_RC, dev_b='soft0', srq=False,
                 access=ALL, mr_access=ALL, **kwargs):
        make = {k: kwargs.pop(k) for k in
                ('wr', 'sge', 'inline', 'sig_all', 'recv_wr') if k in kwargs}
        self.type = qp_type
        self.a = End(size=kwargs.pop('size', 65536),
                     cqe=kwargs.pop('cqe', 256))
        self.b = End(dev_b, access=mr_access)
        if srq:
            self.b.make_srq()
        self.a.make_qp(qp_type, **make)
        self.b.make_qp(qp_type, **make)
        self.connect(access=access, **kwargs)

    def connect(self, **kwargs):
        for me, peer in ((self.a, self.b), (self.b, self.a)):
            up(me.qp, self.type, peer.gid, peer.qp.qp_num, **kwargs)

    def poll(self, cq, num=1, wait_s=WAIT_S):
        """Waits for num completions of `cq`, while driving both ends."""
        got = []
        end = time.monotonic() + wait_s
        while len(got) < num and time.monotonic() < end:
            got += cq.poll(num - len(got))[1] or []
            for other in (self.a.scq, self.b.scq):
                if other is not cq:
                    other.poll(0)
        check(f'completions within {wait_s} s', len(got), num)
        return got

    def nothing(self, *cqs, wait_s=0.02):
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            for cq in cqs:
                num, wcs = cq.poll(1)
                assert num == 0, (f'unwanted completion: wr {wcs[0].wr_id} '
                                  f'{status_name(wcs[0].status)}')

    def ends(self, cq, want, wait_s=WAIT_S):
        """Checks that the next completions of `cq` are these (wr_id, status)
        pairs in this order, and that no others follow."""
        got = [(wc.wr_id, status_name(wc.status))
               for wc in self.poll(cq, len(want), wait_s)]
        check('completions', got,
              [(wr_id, status_name(status)) for wr_id, status in want])
        self.nothing(cq)

    def recv(self, end, wr_id=1, length=1024, offset=32768, sges=None):
        sges = [end.sge(length, offset)] if sges is None else sges
        wr = RecvWR(wr_id, len(sges), sges)
        (end.srq or end.qp).post_recv(wr)

    def close(self):
        self.a.close()
        self.b.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def send_wr(end, opcode=e.IBV_WR_SEND, wr_id=1, length=64, offset=0,
            flags=e.IBV_SEND_SIGNALED, imm=0, sges=None):
    sges = [end.sge(length, offset)] if sges is None else sges
    return SendWR(wr_id=wr_id, opcode=opcode, num_sge=len(sges), sg=sges,
                  imm_data=imm, send_flags=flags)


def rdma_wr(end, peer, opcode, remote=0, rkey=None, **kwargs):
    wr = send_wr(end, opcode, **kwargs)
    wr.set_wr_rdma(peer.mr.rkey if rkey is None else rkey,
                   peer.addr(remote))
    return wr


def atomic_wr(end, peer, opcode, compare_add, swap=0, remote=0, rkey=None,
              **kwargs):
    wr = send_wr(end, opcode, length=kwargs.pop('length', 8), **kwargs)
    wr.set_wr_atomic(peer.mr.rkey if rkey is None else rkey,
                     peer.addr(remote), compare_add, swap)
    return wr

"""Tests every operation, with its data and all fields of its completions.

Source: ibv_post_send(3), ibv_post_recv(3), ibv_poll_cq(3),
ibv_create_ah_from_wc(3), ibv_post_srq_recv(3).
"""
import struct

import pyverbs.enums as e
from pyverbs.addr import AH
from pyverbs.mr import MR
from vlib import (ALL, LOCAL, QKEY, Pair, ah_attr, atomic_wr, check, main,
                  move, rdma_wr, send_wr, test)
from pyverbs.wr import SGE

OK = e.IBV_WC_SUCCESS
WRITE, READ, SEND = (e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ, e.IBV_WR_SEND)
SEND_IMM, WRITE_IMM = (e.IBV_WR_SEND_WITH_IMM, e.IBV_WR_RDMA_WRITE_WITH_IMM)
FADD, CSWAP = (e.IBV_WR_ATOMIC_FETCH_AND_ADD, e.IBV_WR_ATOMIC_CMP_AND_SWP)
SIZES = (0, 1, 3, 8, 1023, 1024, 1025, 4096, 5000, 30000)
GRH = 40


def pattern(length, seed):
    return bytes((i * 7 + seed * 31 + (i >> 8)) & 0xff for i in range(length))


def one(pair, cq):
    wc = pair.poll(cq)[0]
    check('status', wc.status, OK)
    return wc


def sent(pair, wr, opcode):
    """Posts a request and checks its completion."""
    pair.a.qp.post_send(wr)
    wc = one(pair, pair.a.scq)
    check('wr_id', wc.wr_id, wr.wr_id)
    check('opcode', wc.opcode, opcode)
    check('qp_num', wc.qp_num, pair.a.qp.qp_num)
    return wc


def received(pair, wr_id, opcode, length, imm=None):
    wc = one(pair, pair.b.rcq)
    check('wr_id', wc.wr_id, wr_id)
    check('opcode', wc.opcode, opcode)
    check('byte_len', wc.byte_len, length)
    check('qp_num', wc.qp_num, pair.b.qp.qp_num)
    check('with immediate', bool(wc.wc_flags & e.IBV_WC_WITH_IMM),
          imm is not None)
    if imm is not None:
        check('imm_data', wc.imm_data, imm)
    return wc


def around(mr, offset, data):
    """Checks that the data is in place and that the neighbouring bytes are
    unchanged."""
    check('data', mr.read(len(data), offset), data)
    check('before', mr.read(1, offset - 1), b'.')
    check('after', mr.read(1, offset + len(data)), b'.')


def each_size(func, **kwargs):
    with Pair(**kwargs) as pair:
        for seed, size in enumerate(SIZES):
            data = pattern(size, seed)
            pair.a.mr.write(data, size)
            pair.b.mr.write(b'.' * 65536, 65536)
            try:
                func(pair, size, data)
            except AssertionError as problem:
                raise AssertionError(f'{size} bytes: {problem}') from problem


@test
def send():
    def run(pair, size, data):
        pair.recv(pair.b, 77, length=40000, offset=64)
        sent(pair, send_wr(pair.a, length=size), e.IBV_WC_SEND)
        received(pair, 77, e.IBV_WC_RECV, size)
        around(pair.b.mr, 64, data)
    each_size(run)


@test
def send_with_immediate():
    def run(pair, size, data):
        pair.recv(pair.b, 77, length=40000, offset=64)
        sent(pair, send_wr(pair.a, SEND_IMM, length=size, imm=0x12345678),
             e.IBV_WC_SEND)
        received(pair, 77, e.IBV_WC_RECV, size, 0x12345678)
        around(pair.b.mr, 64, data)
    each_size(run)


@test
def write():
    def run(pair, size, data):
        sent(pair, rdma_wr(pair.a, pair.b, WRITE, remote=64, length=size),
             e.IBV_WC_RDMA_WRITE)
        around(pair.b.mr, 64, data)
        pair.nothing(pair.b.rcq, wait_s=0.002)
    each_size(run)


@test
def write_with_immediate():
    """The receive is consumed but its memory is not used. byte_len is the
    length of the WRITE."""
    def run(pair, size, data):
        pair.recv(pair.b, 77, length=8, offset=50000)
        sent(pair, rdma_wr(pair.a, pair.b, WRITE_IMM, remote=64, length=size,
                           imm=0x89abcdef), e.IBV_WC_RDMA_WRITE)
        received(pair, 77, e.IBV_WC_RECV_RDMA_WITH_IMM, size, 0x89abcdef)
        around(pair.b.mr, 64, data)
        check('the receive', pair.b.mr.read(8, 50000), b'.' * 8)
    each_size(run)


@test
def read():
    def run(pair, size, data):
        pair.b.mr.write(data, size, 64)
        pair.a.mr.write(b'.' * 65536, 65536)
        wc = sent(pair, rdma_wr(pair.a, pair.b, READ, remote=64, offset=128,
                                length=size), e.IBV_WC_RDMA_READ)
        check('byte_len', wc.byte_len, size)
        around(pair.a.mr, 128, data)
    each_size(run)


def word(mr, offset):
    return struct.unpack('=Q', mr.read(8, offset))[0]


@test
def fetch_and_add():
    """The sum wraps around, and the old value is returned in host order."""
    with Pair() as pair:
        for old, add in ((5, 7), ((1 << 64) - 1, 2), (0, 0)):
            pair.b.mr.write(struct.pack('=Q', old), 8, 64)
            wc = sent(pair, atomic_wr(pair.a, pair.b, FADD, add, remote=64),
                      e.IBV_WC_FETCH_ADD)
            check('byte_len', wc.byte_len, 8)
            check('old', word(pair.a.mr, 0), old)
            check('new', word(pair.b.mr, 64), (old + add) % (1 << 64))


@test
def compare_and_swap():
    with Pair() as pair:
        for old, compare, swap, new in ((5, 5, 9, 9), (5, 6, 9, 5)):
            pair.b.mr.write(struct.pack('=Q', old), 8, 64)
            sent(pair, atomic_wr(pair.a, pair.b, CSWAP, compare, swap,
                                 remote=64), e.IBV_WC_COMP_SWAP)
            check('old', word(pair.a.mr, 0), old)
            check('new', word(pair.b.mr, 64), new)


# ---- Scatter, gather, inline ----

@test
def gather_and_scatter():
    """Both sides use pieces of odd sizes, one of which is empty."""
    with Pair() as pair:
        data = pattern(3000, 3)
        pair.a.mr.write(data, 3000)
        pair.b.mr.write(b'.' * 65536, 65536)
        pair.recv(pair.b, 77, sges=[pair.b.sge(1, 64), pair.b.sge(1500, 1000),
                                    pair.b.sge(0, 0), pair.b.sge(9000, 5001)])
        sges = [pair.a.sge(1001, 0), pair.a.sge(0, 0),
                pair.a.sge(1, 1001), pair.a.sge(1998, 1002)]
        sent(pair, send_wr(pair.a, sges=sges), e.IBV_WC_SEND)
        received(pair, 77, e.IBV_WC_RECV, 3000)
        around(pair.b.mr, 64, data[:1])
        around(pair.b.mr, 1000, data[1:1501])
        around(pair.b.mr, 5001, data[1501:])


@test
def a_read_scatters():
    with Pair() as pair:
        data = pattern(3000, 4)
        pair.b.mr.write(data, 3000, 64)
        pair.a.mr.write(b'.' * 65536, 65536)
        sent(pair, rdma_wr(pair.a, pair.b, READ, remote=64,
                           sges=[pair.a.sge(7, 1), pair.a.sge(2993, 100)]),
             e.IBV_WC_RDMA_READ)
        around(pair.a.mr, 1, data[:7])
        around(pair.a.mr, 100, data[7:])


@test
def inline_data_is_taken_when_it_is_posted():
    """ibv_post_send(3): the buffer can be reused immediately, and no key is
    needed."""
    with Pair(inline=64) as pair:
        for opcode in (SEND, WRITE):
            for flags in (0, e.IBV_SEND_FENCE):
                data = pattern(64, opcode)
                pair.a.mr.write(data, 64)
                pair.b.mr.write(b'.' * 256, 256)
                pair.recv(pair.b, 77, length=200, offset=64)
                wr = rdma_wr(pair.a, pair.b, opcode, remote=64,
                             flags=(flags | e.IBV_SEND_INLINE |
                                    e.IBV_SEND_SIGNALED),
                             sges=[pair.a.sge(60, 0, 0),
                                   pair.a.sge(4, 60, 12345)])
                pair.a.qp.post_send(wr)
                pair.a.mr.write(b'!' * 64, 64)
                check('status', one(pair, pair.a.scq).wr_id, 1)
                around(pair.b.mr, 64, data)
                if opcode == WRITE:
                    sent(pair, send_wr(pair.a, length=0), e.IBV_WC_SEND)
                one(pair, pair.b.rcq)


# ---- Signalling, order ----

@test
def only_the_signalled_complete():
    with Pair(sig_all=0) as pair:
        for i in range(8):
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, wr_id=i,
                                        flags=(e.IBV_SEND_SIGNALED
                                               if i % 4 == 3 else 0)))
        pair.ends(pair.a.scq, [(3, OK), (7, OK)])


@test
def all_complete_where_the_queue_pair_says_so():
    with Pair(sig_all=1) as pair:
        for i in range(8):
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, wr_id=i,
                                        flags=0))
        pair.ends(pair.a.scq, [(i, OK) for i in range(8)])


@test
def unsignalled_requests_do_not_fill_the_queue():
    """A signalled completion implies that all earlier requests are done."""
    with Pair(wr=8, sig_all=0) as pair:
        for _ in range(10):
            for i in range(8):
                pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, wr_id=i,
                                            flags=(e.IBV_SEND_SIGNALED
                                                   if i == 7 else 0)))
            pair.ends(pair.a.scq, [(7, OK)])


@test
def mixed_operations_complete_in_order():
    with Pair(wr=64) as pair:
        for i in range(0, 64, 4):
            pair.recv(pair.b, 100 + i)
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, READ, wr_id=i,
                                        length=5000, remote=64))
            pair.a.qp.post_send(send_wr(pair.a, wr_id=i + 1))
            pair.a.qp.post_send(atomic_wr(pair.a, pair.b, FADD, 1,
                                          wr_id=i + 2, remote=8000))
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, wr_id=i + 3,
                                        remote=9000))
        pair.ends(pair.a.scq, [(i, OK) for i in range(64)])
        pair.ends(pair.b.rcq, [(100 + i, OK) for i in range(0, 64, 4)])


@test
def a_fence_waits_for_reads():
    """A fenced SEND sends the data that the preceding READ fetched."""
    with Pair() as pair:
        for turn in range(20):
            data = pattern(20000, turn)
            pair.b.mr.write(data, 20000)
            pair.recv(pair.b, 77, length=20000, offset=30000)
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, READ, wr_id=1,
                                        length=20000))
            pair.a.qp.post_send(send_wr(
                pair.a, wr_id=2, length=20000,
                flags=e.IBV_SEND_FENCE | e.IBV_SEND_SIGNALED))
            pair.ends(pair.a.scq, [(1, OK), (2, OK)])
            pair.ends(pair.b.rcq, [(77, OK)])
            check('data', pair.b.mr.read(20000, 30000), data)


@test
def atomics_of_two_queue_pairs_add_up():
    with Pair(wr=64) as pair:
        from vlib import up
        second_a = pair.a.make_qp(wr=64)
        second_b = pair.b.make_qp(wr=64)
        up(second_a, pair.type, pair.b.gid, second_b.qp_num)
        up(second_b, pair.type, pair.a.gid, second_a.qp_num)
        pair.b.mr.write(struct.pack('=Q', 0), 8, 64)
        for _ in range(10):
            for _ in range(50):
                for qp in (pair.a.qp, second_a):
                    qp.post_send(atomic_wr(pair.a, pair.b, FADD, 3,
                                           remote=64, offset=8))
            for wc in pair.poll(pair.a.scq, 100):
                check('status', wc.status, OK)
        check('sum', word(pair.b.mr, 64), 3000)


@test
def a_drained_queue_holds_what_is_posted():
    """In SQD, posted requests wait until the queue pair returns to RTS.
    Receiving continues."""
    with Pair() as pair:
        move(pair.a.qp, e.IBV_QPS_SQD, 0)
        pair.recv(pair.b, 77)
        pair.recv(pair.a, 78)
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))
        pair.nothing(pair.a.scq, pair.b.rcq)
        pair.b.qp.post_send(send_wr(pair.b, wr_id=2))
        pair.ends(pair.b.scq, [(2, OK)])
        pair.ends(pair.a.rcq, [(78, OK)])
        move(pair.a.qp, e.IBV_QPS_RTS, 0)
        pair.ends(pair.a.scq, [(1, OK)])
        pair.ends(pair.b.rcq, [(77, OK)])


@test
def draining_can_be_seen():
    """ibv_query_qp(3): sq_draining is set while requests are in flight."""
    with Pair() as pair:
        def draining():
            return pair.a.qp.query(e.IBV_QP_STATE)[0].sq_draining
        pair.a.qp.post_send(send_wr(pair.a, wr_id=1))  # RNR: no receive
        pair.nothing(pair.a.scq)
        move(pair.a.qp, e.IBV_QPS_SQD, 0)
        check('sq_draining', draining(), 1)
        pair.recv(pair.b, 77)
        pair.ends(pair.a.scq, [(1, OK)])
        check('sq_draining', draining(), 0)


@test
def every_path_mtu():
    for code in range(e.IBV_MTU_256, e.IBV_MTU_4096 + 1):
        with Pair(mtu=code) as pair:
            for seed, size in enumerate((128 << code, (128 << code) + 1,
                                         20000)):
                data = pattern(size, seed)
                pair.a.mr.write(data, size)
                pair.b.mr.write(b'.' * 65536, 65536)
                sent(pair, rdma_wr(pair.a, pair.b, WRITE, remote=64,
                                   length=size), e.IBV_WC_RDMA_WRITE)
                around(pair.b.mr, 64, data)
                pair.a.mr.write(b'.' * 65536, 65536)
                sent(pair, rdma_wr(pair.a, pair.b, READ, remote=64,
                                   offset=64, length=size),
                     e.IBV_WC_RDMA_READ)
                around(pair.a.mr, 64, data)


@test
def poll_gives_no_more_than_asked():
    with Pair() as pair:
        for i in range(6):
            pair.a.qp.post_send(rdma_wr(pair.a, pair.b, WRITE, wr_id=i))
        pair.poll(pair.a.scq, 1)
        for _ in range(1000):
            pair.b.scq.poll(0)
        check('none asked', pair.a.scq.poll(0)[0], 0)
        got = pair.poll(pair.a.scq, 5)
        check('order', [wc.wr_id for wc in got], [1, 2, 3, 4, 5])
        check('then', pair.a.scq.poll(10)[0], 0)


@test
def overlapping_regions_with_other_rights():
    """Each key grants its own rights, whatever rights other keys grant for the
    same bytes."""
    with Pair() as pair:
        only_read = MR(pair.b.pd, 4096, e.IBV_ACCESS_REMOTE_READ,
                       address=pair.b.addr())
        inner = MR(pair.b.pd, 100, ALL, address=pair.b.addr(50))
        pair.b.mr.write(b'.' * 256, 256)
        assert len({only_read.rkey, inner.rkey, pair.b.mr.rkey}) == 3
        wr = rdma_wr(pair.a, pair.b, READ, remote=0, rkey=only_read.rkey)
        sent(pair, wr, e.IBV_WC_RDMA_READ)
        wr = rdma_wr(pair.a, pair.b, WRITE, remote=50, rkey=inner.rkey,
                     length=100, offset=128)
        pair.a.mr.write(b'x' * 100, 100, 128)
        sent(pair, wr, e.IBV_WC_RDMA_WRITE)
        around(pair.b.mr, 50, b'x' * 100)
        wr = rdma_wr(pair.a, pair.b, WRITE, remote=0, rkey=only_read.rkey)
        pair.a.qp.post_send(wr)
        pair.ends(pair.a.scq, [(1, e.IBV_WC_REM_ACCESS_ERR)])


@test
def zero_based_region():
    """ibv_reg_mr(3): "Use byte offset from beginning of MR"."""
    with Pair() as pair:
        zero = MR(pair.b.pd, 4096, ALL | e.IBV_ACCESS_ZERO_BASED)
        pair.a.mr.write(b'zero', 4)
        for opcode in (WRITE, READ):
            wr = send_wr(pair.a, opcode, length=4)
            wr.set_wr_rdma(zero.rkey, 100)
            pair.a.qp.post_send(wr)
            one(pair, pair.a.scq)
        check('data', zero.read(4, 100), b'zero')
        pair.b.qp.post_send(send_wr(pair.b, sges=[SGE(100, 4, zero.lkey)]))
        pair.recv(pair.a, 8, offset=200)
        one(pair, pair.b.scq)
        one(pair, pair.a.rcq)
        check('sent', pair.a.mr.read(4, 200), b'zero')


@test
def to_itself():
    """A queue pair can be connected to itself."""
    with Pair() as pair:
        qp = pair.a.qp
        move(qp, e.IBV_QPS_RESET, 0)
        from vlib import up
        up(qp, e.IBV_QPT_RC, pair.a.gid, qp.qp_num)
        pair.a.mr.write(b'self', 4)
        pair.recv(pair.a, 3, offset=100)
        qp.post_send(send_wr(pair.a, wr_id=2, length=4))
        pair.ends(pair.a.scq, [(2, OK)])
        pair.ends(pair.a.rcq, [(3, OK)])
        check('data', pair.a.mr.read(4, 100), b'self')


# ---- Datagrams ----

def datagram(pair, ah, size, opcode=SEND, **kwargs):
    wr = send_wr(pair.a, opcode, length=size, **kwargs)
    wr.set_wr_ud(ah, pair.b.qp.qp_num, QKEY)
    return wr


@test
def datagrams():
    """A 40-byte GRH precedes the data, and the completion names the sender."""
    with Pair(e.IBV_QPT_UD, dev_b='soft1') as pair:
        mtu = 128 << pair.a.ctx.query_port(1).active_mtu
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            for size in (0, 1, 100, mtu):
                for opcode, imm in ((SEND, None), (SEND_IMM, 0xa1b2c3d4)):
                    data = pattern(size, size & 0xff)
                    pair.a.mr.write(data, size)
                    pair.b.mr.write(b'.' * 8192, 8192)
                    pair.recv(pair.b, 77, length=5000, offset=64)
                    sent(pair, datagram(pair, ah, size, opcode, imm=imm or 0),
                         e.IBV_WC_SEND)
                    wc = received(pair, 77, e.IBV_WC_RECV, size + GRH, imm)
                    check('src_qp', wc.src_qp, pair.a.qp.qp_num)
                    assert wc.wc_flags & e.IBV_WC_GRH, 'no GRH'
                    check('pkey_index', wc.pkey_index, 0)
                    check('slid', wc.slid, 0)
                    check('data', pair.b.mr.read(size, 64 + GRH), data)
                    check('after', pair.b.mr.read(1, 64 + GRH + size), b'.')


@test
def the_ipv4_header_of_a_datagram():
    """The IPv4 header is in the last 20 of the 40 bytes (annex A17.4.5.2)."""
    with Pair(e.IBV_QPT_UD, dev_b='soft1') as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            pair.recv(pair.b, 77, length=200, offset=64)
            sent(pair, datagram(pair, ah, 8), e.IBV_WC_SEND)
            received(pair, 77, e.IBV_WC_RECV, 48)
        header = pair.b.mr.read(20, 64 + 20)
        check('version', header[0], 0x45)
        check('source', '.'.join(map(str, header[12:16])), ip_of(pair.a))
        check('destination', '.'.join(map(str, header[16:20])), ip_of(pair.b))


def ip_of(end):
    last = str(end.gid).split(':')[-2:]
    raw = bytes.fromhex(''.join(part.rjust(4, '0') for part in last))
    return '.'.join(map(str, raw))


@test
def a_datagram_with_a_wrong_qkey_is_dropped():
    with Pair(e.IBV_QPT_UD) as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            pair.recv(pair.b, 77)
            wr = send_wr(pair.a)
            wr.set_wr_ud(ah, pair.b.qp.qp_num, QKEY + 1)
            sent(pair, wr, e.IBV_WC_SEND)
            pair.nothing(pair.b.rcq)
            sent(pair, datagram(pair, ah, 8), e.IBV_WC_SEND)
            received(pair, 77, e.IBV_WC_RECV, 48)


@test
def a_datagram_to_nobody_is_dropped():
    with Pair(e.IBV_QPT_UD) as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            pair.recv(pair.b, 77)
            for qpn in (pair.b.qp.qp_num + 100, 0, 1, 0xffffff):
                wr = send_wr(pair.a)
                wr.set_wr_ud(ah, qpn, QKEY)
                sent(pair, wr, e.IBV_WC_SEND)
            pair.nothing(pair.b.rcq)


@test
def a_privileged_qkey_selects_the_senders_own():
    """10.2.5: if the high bit of the Q_Key is set, the queue pair's own Q_Key
    is sent."""
    with Pair(e.IBV_QPT_UD) as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            pair.recv(pair.b, 77)
            wr = send_wr(pair.a, length=8)
            wr.set_wr_ud(ah, pair.b.qp.qp_num, 0x80000000)
            sent(pair, wr, e.IBV_WC_SEND)
            received(pair, 77, e.IBV_WC_RECV, 48)


@test
def a_datagram_without_a_receive_is_dropped():
    with Pair(e.IBV_QPT_UD) as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            sent(pair, datagram(pair, ah, 8), e.IBV_WC_SEND)
            pair.nothing(pair.b.rcq)
            pair.recv(pair.b, 77)
            pair.nothing(pair.b.rcq)


# ---- Shared receive queue ----

@test
def shared_receives():
    """Two queue pairs use one SRQ, and the completion names the queue pair."""
    with Pair(srq=True) as pair:
        from vlib import up
        second_a = pair.a.make_qp()
        second_b = pair.b.make_qp()
        up(second_a, pair.type, pair.b.gid, second_b.qp_num)
        up(second_b, pair.type, pair.a.gid, second_a.qp_num)
        for i in range(4):
            pair.recv(pair.b, i, length=100, offset=1000 * i)
        for i, (qp, peer) in enumerate(((pair.a.qp, pair.b.qp),
                                        (second_a, second_b)) * 2):
            qp.post_send(send_wr(pair.a, wr_id=i))
            wc = one(pair, pair.b.rcq)
            check('wr_id', wc.wr_id, i)
            check('qp_num', wc.qp_num, peer.qp_num)


main()

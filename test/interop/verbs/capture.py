"""Sends each kind of packet once and checks that tshark saw it.

capture.py run EXPECTED     run in a session: sends the packets and writes a
                            description of them to EXPECTED
capture.py fields           prints the tshark field names
capture.py check EXPECTED SEEN
                            compares; SEEN: tshark's fields (see FIELDS), one
                            packet per line
Opcodes: InfiniBand Architecture Specification volume 1, 9.2.1; syndromes:
9.7.5.1.
"""
import json
import os
import subprocess
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AH
from vlib import (QKEY, Pair, ah_attr, atomic_wr, rdma_wr, send_wr)

# Maps tshark's field names to the names used here.
FIELDS = {'infiniband.bth.opcode': 'opcode', 'infiniband.bth.destqp': 'qp',
          'infiniband.bth.psn': 'psn', 'infiniband.bth.se': 'se',
          'infiniband.aeth.syndrome': 'syndrome', 'infiniband.immdt': 'imm',
          'infiniband.reth.r_key': 'rkey', 'infiniband.reth.dmalen': 'length',
          'infiniband.deth.srcqp': 'srcqp', 'udp.srcport': 'sport',
          'udp.length': 'udp', 'ip.id': 'id',
          'infiniband.invariant.crc': 'icrc',
          '_ws.malformed': 'malformed', '_ws.expert.message': 'expert'}

OK = e.IBV_WC_SUCCESS
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = \
    range(6)
(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY,
 WRITE_ONLY_IMM, READ_REQ, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK,
 ATOMIC_ACK, CMP_SWAP, FETCH_ADD) = range(6, 21)
UD_SEND, UD_SEND_IMM = 0x64, 0x65
RNR_NAK, NAK_SEQ, NAK_INV, NAK_ACCESS, NAK_OP = 0x20, 0x60, 0x61, 0x62, 0x63


class Script:
    """Posts requests on one pair, and records the packets that each should
    produce."""

    def __init__(self, pair, psn):
        self.pair = pair
        self.psn = psn
        self.want = []

    def packet(self, opcode, **kwargs):
        self.want.append(dict(opcode=opcode, qp=self.pair.b.qp.qp_num,
                              psn=self.psn, **kwargs))
        self.psn += 1

    def answer(self, opcode, psn, **kwargs):
        self.want.append(dict(opcode=opcode, qp=self.pair.a.qp.qp_num,
                              psn=psn, **kwargs))

    def post(self, wr, status=OK):
        self.pair.a.qp.post_send(wr)
        self.pair.ends(self.pair.a.scq, [(1, status)])

    def message(self, wr, opcodes, imm=None, rkey=None, length=None, se=0):
        """Posts a SEND or WRITE whose packets have these opcodes."""
        for i, opcode in enumerate(opcodes):
            more = {'se': se if i == len(opcodes) - 1 else 0}
            if i == 0 and rkey is not None:
                more.update(rkey=rkey, length=length)
            if i == len(opcodes) - 1 and imm is not None:
                more.update(imm=imm)
            self.packet(opcode, **more)
        self.post(wr)


def sends(s):
    pair = s.pair
    for imm, size, opcodes in (
            (None, 100, [SEND_ONLY]), (7, 100, [SEND_ONLY_IMM]),
            (None, 3000, [SEND_FIRST, SEND_MIDDLE, SEND_LAST]),
            (8, 2500, [SEND_FIRST, SEND_MIDDLE, SEND_LAST_IMM])):
        pair.recv(pair.b, 77, length=4000)
        opcode = e.IBV_WR_SEND if imm is None else e.IBV_WR_SEND_WITH_IMM
        s.message(send_wr(pair.a, opcode, length=size, imm=imm or 0), opcodes,
                  imm)
    pair.recv(pair.b, 77)
    s.message(send_wr(pair.a, length=64,
                      flags=e.IBV_SEND_SIGNALED | e.IBV_SEND_SOLICITED),
              [SEND_ONLY], se=1)


def writes(s):
    pair = s.pair
    for imm, size, opcodes in (
            (None, 100, [WRITE_ONLY]), (9, 100, [WRITE_ONLY_IMM]),
            (None, 3000, [WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST]),
            (10, 2500, [WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM])):
        opcode = e.IBV_WR_RDMA_WRITE
        if imm is not None:
            pair.recv(pair.b, 77)
            opcode = e.IBV_WR_RDMA_WRITE_WITH_IMM
        s.message(rdma_wr(pair.a, pair.b, opcode, length=size, imm=imm or 0),
                  opcodes, imm, pair.b.mr.rkey, size)


def reads_and_atomics(s):
    pair = s.pair
    for size, opcodes in ((100, [READ_ONLY]),
                          (3000, [READ_FIRST, READ_MIDDLE, READ_LAST])):
        first = s.psn
        s.packet(READ_REQ, rkey=pair.b.mr.rkey, length=size)
        for i, opcode in enumerate(opcodes):
            s.answer(opcode, first + i)
        s.psn = first + len(opcodes)
        s.post(rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_READ, length=size))
    for verb, opcode in ((e.IBV_WR_ATOMIC_CMP_AND_SWP, CMP_SWAP),
                         (e.IBV_WR_ATOMIC_FETCH_AND_ADD, FETCH_ADD)):
        s.answer(ATOMIC_ACK, s.psn)
        s.packet(opcode)
        s.post(atomic_wr(pair.a, pair.b, verb, 1, 2))


def not_ready(s):
    """Posts the receive late, so that the responder sends an RNR NAK and the
    requester retransmits the packet."""
    pair = s.pair
    s.answer(ACK, s.psn, syndrome=RNR_NAK)
    s.packet(SEND_ONLY)
    pair.a.qp.post_send(send_wr(pair.a))
    pair.nothing(pair.a.scq, wait_s=0.05)
    pair.recv(pair.b, 77)
    pair.ends(pair.a.scq, [(1, OK)])


def refused(s, wr, status, syndrome, opcode):
    s.answer(ACK, s.psn, syndrome=syndrome)
    s.packet(opcode)
    s.post(wr, status)


def rc():
    want = []
    with Pair(rq_psn=100, sq_psn=100) as pair:
        s = Script(pair, 100)
        for part in (sends, writes, reads_and_atomics, not_ready):
            part(s)
        refused(s, rdma_wr(pair.a, pair.b, e.IBV_WR_RDMA_WRITE, rkey=0x1234),
                e.IBV_WC_REM_ACCESS_ERR, NAK_ACCESS, WRITE_ONLY)
        want += s.want
    with Pair(rq_psn=0xffffff, sq_psn=0xffffff) as pair:
        pair.recv(pair.b, 77, length=10)
        s = Script(pair, 0xffffff)
        refused(s, send_wr(pair.a), e.IBV_WC_REM_INV_REQ_ERR, NAK_INV,
                SEND_ONLY)
        want += s.want
    with Pair() as pair:
        pair.recv(pair.b, 77, sges=[pair.b.sge(100, 0, 0x1234)])
        s = Script(pair, 100)
        refused(s, send_wr(pair.a), e.IBV_WC_REM_OP_ERR, NAK_OP, SEND_ONLY)
        want += s.want
    return want


def ud():
    want = []
    with Pair(e.IBV_QPT_UD) as pair:
        with AH(pair.a.pd, attr=ah_attr(pair.b.gid)) as ah:
            for i, (verb, opcode) in enumerate((
                    (e.IBV_WR_SEND, UD_SEND),
                    (e.IBV_WR_SEND_WITH_IMM, UD_SEND_IMM))):
                pair.recv(pair.b, 77)
                wr = send_wr(pair.a, verb, imm=11)
                wr.set_wr_ud(ah, pair.b.qp.qp_num, QKEY)
                pair.a.qp.post_send(wr)
                pair.ends(pair.a.scq, [(1, OK)])
                pair.ends(pair.b.rcq, [(77, OK)])
                want.append(dict(opcode=opcode, qp=pair.b.qp.qp_num,
                                 psn=100 + i, srcqp=pair.a.qp.qp_num))
    return want


def lossy():
    """Loses some packets, which must cause a sequence-error NAK."""
    soft = os.environ['MRAIL_TEST_SOFT']
    with Pair() as pair:
        subprocess.run([soft, 'ctl', 'loss=100000'], check=True)
        for _ in range(60):
            pair.recv(pair.b, 77, length=9000)
            pair.a.qp.post_send(send_wr(pair.a, length=9000))
            pair.ends(pair.a.scq, [(1, OK)])
        subprocess.run([soft, 'ctl', 'loss=0'], check=True)
        return [dict(opcode=ACK, qp=pair.a.qp.qp_num, syndrome=NAK_SEQ)]


def run(path):
    want = rc() + ud() + lossy()
    time.sleep(0.1)
    with open(path, 'w', encoding='ascii') as file:
        json.dump(want, file)


def number(text):
    """Converts a flag, which tshark 4.0 writes as 1 or 0, and 4.4 as True or
    False."""
    if text in ('True', 'False'):
        return int(text == 'True')
    return int(text, 0) if text else None


def raw(text):
    """Returns the first of several comma-separated values in host order,
    because pyverbs does not convert immediate data to network order."""
    return int.from_bytes(bytes.fromhex(text.split(',')[0]),
                          sys.byteorder) if text else None


def matches(want, got):
    for name, value in want.items():
        have = got[name]
        if name == 'syndrome' and value == RNR_NAK:
            have = have & 0xe0 if have is not None else None
        if have != value:
            return False
    return True


def parse(line):
    got = {}
    for name, text in zip(FIELDS.values(), line.rstrip('\n').split('\t')):
        if name in ('malformed', 'expert'):
            got[name] = text or None
        else:
            got[name] = raw(text) if name == 'imm' else number(text)
    return got


def result(name, wrong):
    for one in wrong[:5]:
        print('#', one)
    print(f'not ok - {name}: {len(wrong)}, see above' if wrong
          else f'ok - {name}')
    return bool(wrong)


def check(expected, seen):
    with open(expected, encoding='ascii') as file:
        want = json.load(file)
    with open(seen, encoding='ascii') as file:
        got = [parse(line) for line in file]
    if not got:
        sys.exit('not ok - capture: no packet was captured')
    counts = {}
    for g in got:
        counts[g['opcode']] = counts.get(g['opcode'], 0) + 1
    kinds = {w['opcode'] for w in want}
    print(f'# {len(got)} packets, {len(want)} expected ones of '
          f'{len(kinds)} opcodes; by opcode:',
          ' '.join(f'{k}={counts[k]}' for k in sorted(counts, key=str)))
    failed = result('packets_of_every_opcode_are_seen_as_sent', [
        w for w in want if not any(matches(w, g) for g in got)])
    failed |= result('nothing_is_malformed_or_has_a_remark', [
        g for g in got if g['malformed'] or g['expert']])
    failed |= result('every_packet_is_infiniband', [
        g for g in got if g['opcode'] is None])
    failed |= result('every_packet_is_seen_by_itself', [
        g for g in got if g['udp'] > 1100])
    # Adapters use these source ports for RoCE. The kernel numbers the segments
    # of one UDP_SEGMENT send.
    failed |= result('ports_and_identification', [
        g for g in got if not 0xc000 <= g['sport'] <= 0xffff or g['id'] > 63])
    failed |= result('every_packet_has_an_icrc', [
        g for g in got if not g['icrc']])
    sys.exit(1 if failed or len(kinds) < 23 else 0)


if sys.argv[1] == 'run':
    run(sys.argv[2])
elif sys.argv[1] == 'fields':
    print(' '.join(FIELDS))
else:
    check(sys.argv[2], sys.argv[3])

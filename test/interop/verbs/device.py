"""Tests the properties that the device reports, and the calls that it
refuses.

Source: ibv_query_device(3), ibv_query_device_ex(3), ibv_query_port(3),
ibv_query_gid(3), ibv_query_gid_table(3), ibv_query_pkey(3), and the pages of
the optional calls. An unsupported call fails with EOPNOTSUPP or ENOSYS and has
no other effect.
"""
import errno

import pyverbs.device as d
import pyverbs.enums as e
from pyverbs.cq import CQEX, CqInitAttrEx
from pyverbs.device import DM, AllocDmAttr, Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD, ParentDomain, ParentDomainInitAttr
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, ECE, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqInitAttrEx
from pyverbs.wq import WQ, WQInitAttr
from pyverbs.xrcd import XRCD, XRCDInitAttr
from vlib import End, check, main, refused, test

NOT_THERE = (errno.EOPNOTSUPP, errno.ENOSYS)


@test
def device_list():
    devices = d.get_device_list()
    check('names', [dev.name.decode() for dev in devices],
          ['soft0', 'soft1', 'soft2', 'soft3'])
    check('guids', len({dev.guid for dev in devices}), 4)
    for dev in devices:
        check('node type', dev.node_type, e.IBV_NODE_CA)
        check('transport', dev.transport_type, e.IBV_TRANSPORT_IB)


@test
def no_such_device():
    try:
        Context(name='soft99')
    except Exception:
        return
    raise AssertionError('soft99 was opened')


@test
def a_device_can_be_opened_twice():
    with Context(name='soft0') as one, Context(name='soft0') as two:
        check('guid', one.query_device().node_guid,
              two.query_device().node_guid)


@test
def limits_are_real():
    """Each reported limit can be reached, and one more is rejected."""
    with End() as end:
        attr = end.ctx.query_device()
        for name in ('max_qp', 'max_qp_wr', 'max_sge', 'max_cq', 'max_cqe',
                     'max_mr', 'max_pd', 'max_qp_rd_atom', 'max_srq',
                     'max_srq_wr', 'max_srq_sge', 'max_ah', 'max_sge_rd',
                     'max_qp_init_rd_atom', 'max_res_rd_atom', 'max_mr_size'):
            assert getattr(attr, name) > 0, f'{name} is 0'
        check('ports', attr.phys_port_cnt, 1)
        check('pkeys', attr.max_pkeys, 1)
        for cap, valid in (
                (QPCap(attr.max_qp_wr, 1, 1, 1, 0), True),
                (QPCap(1, attr.max_qp_wr, 1, 1, 0), True),
                (QPCap(1, 1, attr.max_sge, attr.max_sge, 0), True),
                (QPCap(attr.max_qp_wr + 1, 1, 1, 1, 0), False),
                (QPCap(1, attr.max_qp_wr + 1, 1, 1, 0), False),
                (QPCap(1, 1, attr.max_sge + 1, 1, 0), False),
                (QPCap(1, 1, 1, attr.max_sge + 1, 0), False),
                (QPCap(1, 1, 1, 1, 1 << 20), False)):
            init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=end.scq, rcq=end.rcq,
                              cap=cap)
            if valid:
                QP(end.pd, init).close()
            else:
                refused((errno.EINVAL, errno.ENOMEM), QP, end.pd, init)


@test
def flags_match_the_device():
    with End() as end:
        flags = end.ctx.query_device().device_cap_flags
        assert flags & e.IBV_DEVICE_PORT_ACTIVE_EVENT, 'port events'
        assert flags & e.IBV_DEVICE_SRQ_RESIZE, 'ibv_modify_srq works'
        assert flags & e.IBV_DEVICE_CURR_QP_STATE_MOD, 'IBV_QP_CUR_STATE works'
        assert not flags & e.IBV_DEVICE_MEM_WINDOW, 'no memory windows'
        assert not flags & e.IBV_DEVICE_AUTO_PATH_MIG, 'no path migration'


@test
def port():
    with End() as end:
        attr = end.ctx.query_port(1)
        check('state', attr.state, e.IBV_PORT_ACTIVE)
        check('link layer', attr.link_layer, e.IBV_LINK_LAYER_ETHERNET)
        check('GIDs', attr.gid_tbl_len, 1)
        check('P_Keys', attr.pkey_tbl_len, 1)
        assert attr.max_msg_sz >= 1 << 30
        assert e.IBV_MTU_256 <= attr.active_mtu <= attr.max_mtu
        for wrong in (0, 2, 255):
            refused(errno.EINVAL, end.ctx.query_port, wrong)


@test
def gids():
    """All query calls return the same GID, IPv4-mapped and for RoCE v2."""
    with End() as end:
        gid = str(end.ctx.query_gid(1, 0))
        assert gid.startswith('0000:0000:0000:0000:0000:ffff:7f'), gid
        entry = end.ctx.query_gid_ex(1, 0)
        check('type', entry.gid_type, e.IBV_GID_TYPE_ROCE_V2)
        check('port', entry.port_num, 1)
        check('index', entry.gid_index, 0)
        table = end.ctx.query_gid_table(10)
        check('entries', len(table), 1)
        check('type', table[0].gid_type, e.IBV_GID_TYPE_ROCE_V2)
        check('the same', table[0].gid_str(), entry.gid_str())
        assert gid.endswith(entry.gid_str()[-9:]), entry.gid_str()
        check('sysfs type', end.ctx.query_gid_type(1, 0),
              e.IBV_GID_TYPE_SYSFS_ROCE_V2)
        for port_num, index in ((1, 1), (1, 255), (0, 0), (2, 0)):
            fails(end.ctx.query_gid, port_num, index)
            fails(end.ctx.query_gid_type, port_num, index)
        fails(end.ctx.query_gid_ex, 1, 1)
        fails(end.ctx.query_gid_ex, 2, 0)


def fails(func, *args):
    try:
        func(*args)
    except PyverbsRDMAError:
        return
    raise AssertionError(f'{func.__name__}{args} was not rejected')


@test
def pkeys():
    with End() as end:
        check('P_Key', end.ctx.query_pkey(1, 0), 0xffff)
        fails(end.ctx.query_pkey, 1, 1)
        fails(end.ctx.query_pkey, 2, 0)


@test
def device_ex():
    """ibv_query_device_ex() falls back to ibv_query_device(), and reports
    absent features as 0."""
    with End() as end:
        attr = end.ctx.query_device_ex()
        check('ports', attr.orig_attr.phys_port_cnt, 1)
        check('QPs', attr.orig_attr.max_qp, end.ctx.query_device().max_qp)
        check('on-demand paging', attr.odp_caps.general_caps, 0)
        check('direct memory', attr.max_dm_size, 0)
        check('time stamps', attr.completion_timestamp_mask, 0)


# ---- Calls that are not supported ----

@test
def no_extended_cq():
    with End() as end:
        refused(NOT_THERE, CQEX, end.ctx, CqInitAttrEx(cqe=10))


@test
def no_extended_qp():
    with End() as end:
        attr = QPInitAttrEx(
            qp_type=e.IBV_QPT_RC, scq=end.scq, rcq=end.rcq, pd=end.pd,
            cap=QPCap(1, 1, 1, 1, 0), send_ops_flags=e.IBV_QP_EX_WITH_SEND,
            comp_mask=(e.IBV_QP_INIT_ATTR_PD |
                       e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        refused(NOT_THERE, QPEx, end.ctx, attr)


@test
def a_plain_qp_through_the_extended_call():
    """The extended call falls back to ibv_create_qp()."""
    with End() as end:
        attr = QPInitAttrEx(
            qp_type=e.IBV_QPT_RC, scq=end.scq, rcq=end.rcq, pd=end.pd,
            cap=QPCap(1, 1, 1, 1, 0), comp_mask=e.IBV_QP_INIT_ATTR_PD)
        qp = QP(end.ctx, attr)
        assert qp.qp_num > 1
        qp.close()


@test
def no_other_kinds_of_queue_pairs():
    with End() as end:
        for kind in (e.IBV_QPT_UC, e.IBV_QPT_RAW_PACKET, e.IBV_QPT_XRC_SEND,
                     e.IBV_QPT_XRC_RECV, e.IBV_QPT_DRIVER, 0, 77):
            init = QPInitAttr(qp_type=kind, scq=end.scq, rcq=end.rcq,
                              cap=QPCap(1, 1, 1, 1, 0))
            refused(NOT_THERE + (errno.EINVAL,), QP, end.pd, init)


@test
def no_xrc():
    with End() as end:
        refused(NOT_THERE, XRCD, end.ctx, XRCDInitAttr(
            e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, 0o100, -1))
        refused(NOT_THERE + (errno.EINVAL,), SRQ, end.ctx, SrqInitAttrEx(
            max_wr=8, max_sge=1))


@test
def no_memory_windows():
    with End() as end:
        for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
            refused(NOT_THERE, MW, end.pd, kind)


@test
def no_direct_memory():
    with End() as end:
        try:
            DM(end.ctx, AllocDmAttr(length=4096))
        except PyverbsError:
            return  # pyverbs first queries the amount, which is 0
        raise AssertionError('direct memory was allocated')


@test
def no_parent_domain():
    with End() as end:
        refused(NOT_THERE, ParentDomain, end.ctx,
                attr=ParentDomainInitAttr(pd=end.pd))


@test
def no_work_queues():
    with End() as end:
        refused(NOT_THERE, WQ, end.ctx, WQInitAttr(wq_context=None,
                                                   wq_pd=end.pd,
                                                   wq_cq=end.scq))


@test
def no_real_time_values():
    with End() as end:
        refused(NOT_THERE, end.ctx.query_rt_values_ex)


@test
def no_advice():
    with End() as end:
        refused(NOT_THERE, end.pd.advise_mr, 0, 0, [end.sge(8)])


@test
def no_import():
    """No kernel driver holds the objects, so no other process can import
    them."""
    with End() as end:
        refused(NOT_THERE, MR, end.pd, handle=1)
        refused(NOT_THERE, PD, end.ctx, handle=1)
        refused(NOT_THERE, DM, end.ctx, handle=1)
        refused(NOT_THERE, Context, cmd_fd=0)


@test
def no_on_demand_paging():
    with End() as end:
        refused(NOT_THERE + (errno.EINVAL,), MR, end.pd, 4096,
                e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND)
        refused(NOT_THERE + (errno.EINVAL,), MR, end.pd, 0,
                e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND,
                implicit=True)


@test
def no_ece():
    with End() as end:
        qp = end.make_qp()
        refused(NOT_THERE, qp.query_ece)
        refused(NOT_THERE, qp.set_ece, ECE(vendor_id=1, options=1))


@test
def data_in_order():
    """ibv_query_qp_data_in_order(3): 1, or 0 without a guarantee."""
    with End() as end:
        got = end.make_qp().query_data_in_order(e.IBV_WR_RDMA_WRITE)
        assert got in (0, 1), got


main()

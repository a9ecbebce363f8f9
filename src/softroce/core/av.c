/* Converts verbs address attributes to address vectors: an IPv4 address, TOS
 * and source port. */
#include "config.h"

#include "softroce/core/core.h"

#include <arpa/inet.h>
#include <errno.h>

int sroce_av_init(sroce_av_t *av, const struct ibv_ah_attr *attr)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
    const uint8_t *raw = attr->grh.dgid.raw;

    if (!attr->is_global || (attr->port_num != 1) ||
        (attr->grh.sgid_index != 0) ||
        (memcmp(raw, mapped, sizeof(mapped)) != 0) || (raw[12] >= 224) ||
        (raw[12] == 0)) {
        return EINVAL;
    }
    memcpy(&av->ip, raw + 12, 4);
    av->flow_label = attr->grh.flow_label & 0xfffff;
    av->tos = attr->grh.traffic_class;
    av->hop_limit = attr->grh.hop_limit;
    return 0;
}

uint16_t sroce_av_sport(const sroce_av_t *av, uint32_t qpn, uint32_t dest_qpn)
{
    uint32_t fl = av->flow_label;

    if (fl == 0) {
        uint64_t v = (uint64_t)qpn * dest_qpn;

        v ^= v >> 20;
        v ^= v >> 40;
        fl = (uint32_t)v & 0xfffff;
    }
    return (uint16_t)(0xc000 | ((fl & 0x3fff) ^ (fl >> 14)));
}

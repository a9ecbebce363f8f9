#include "config.h"

#include "softroce/core/pkt.h"

#define V SROCE_OPF_VALID
#define F SROCE_OPF_FIRST
#define L SROCE_OPF_LAST
#define I SROCE_OPF_IMM
#define P SROCE_OPF_PAYLOAD
#define S (SROCE_OPF_SEND | P | V)
#define W (SROCE_OPF_WRITE | P | V)
#define R (SROCE_OPF_READ | V)
#define A (SROCE_OPF_ATOMIC | V)
#define RSP SROCE_OPF_RESPONSE
#define BTH SROCE_BTH_BYTES
#define RETH SROCE_RETH_BYTES
#define AETH SROCE_AETH_BYTES
#define IMM SROCE_IMM_BYTES
#define DETH SROCE_DETH_BYTES

/* Source: IBA table 38. SEND with invalidate (0x16, 0x17) is not supported. */
const sroce_op_t sroce_ops[256] = {
    [SROCE_OP_SEND_FIRST] = {S | F, BTH},
    [SROCE_OP_SEND_MIDDLE] = {S, BTH},
    [SROCE_OP_SEND_LAST] = {S | L, BTH},
    [SROCE_OP_SEND_LAST_IMM] = {S | L | I, BTH + IMM},
    [SROCE_OP_SEND_ONLY] = {S | F | L, BTH},
    [SROCE_OP_SEND_ONLY_IMM] = {S | F | L | I, BTH + IMM},
    [SROCE_OP_WRITE_FIRST] = {W | F, BTH + RETH},
    [SROCE_OP_WRITE_MIDDLE] = {W, BTH},
    [SROCE_OP_WRITE_LAST] = {W | L, BTH},
    [SROCE_OP_WRITE_LAST_IMM] = {W | L | I, BTH + IMM},
    [SROCE_OP_WRITE_ONLY] = {W | F | L, BTH + RETH},
    [SROCE_OP_WRITE_ONLY_IMM] = {W | F | L | I, BTH + RETH + IMM},
    [SROCE_OP_READ_REQ] = {R | F | L, BTH + RETH},
    [SROCE_OP_READ_FIRST] = {R | RSP | P | F, BTH + AETH},
    [SROCE_OP_READ_MIDDLE] = {R | RSP | P, BTH},
    [SROCE_OP_READ_LAST] = {R | RSP | P | L, BTH + AETH},
    [SROCE_OP_READ_ONLY] = {R | RSP | P | F | L, BTH + AETH},
    [SROCE_OP_ACK] = {V | RSP, BTH + AETH},
    [SROCE_OP_ATOMIC_ACK] = {A | RSP, BTH + AETH + SROCE_ATOMIC_ACK_BYTES},
    [SROCE_OP_CMP_SWAP] = {A | F | L, BTH + SROCE_ATOMIC_BYTES},
    [SROCE_OP_FETCH_ADD] = {A | F | L, BTH + SROCE_ATOMIC_BYTES},
    [SROCE_OP_UD_SEND] = {S | F | L | SROCE_OPF_UD, BTH + DETH},
    [SROCE_OP_UD_SEND_IMM] = {S | F | L | I | SROCE_OPF_UD, BTH + DETH + IMM},
};

/* Source: IBA table 45. */
const uint32_t sroce_rnr_timer_us[32] = {
    655360, 10,    20,    30,     40,     60,     80,     120,
    160,    240,   320,   480,    640,    960,    1280,   1920,
    2560,   3840,  5120,  7680,   10240,  15360,  20480,  30720,
    40960,  61440, 81920, 122880, 163840, 245760, 327680, 491520};

uint32_t sroce_rx_dest_qpn(const uint8_t *data, size_t length)
{
    return (length < SROCE_BTH_BYTES) ? UINT32_MAX
                                      : (sroce_get32(data + 4) & 0xffffff);
}

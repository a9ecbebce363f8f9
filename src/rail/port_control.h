/*
 * How a device controls the UDP source port of a QP, and which port a QP gets that
 * asks for one. Found out by a sample QP, which is connected to itself and sends
 * nothing.
 *
 * A source port is set by the flow label when the QP is connected
 * (orchestrator/ports.h). The device stores the label; its driver or hardware computes the port.
 * So the sample shows what the device has stored, and a table of drivers says
 * whether the port follows from it. Only a packet capture proves the port on the wire.
 */
#ifndef MRAIL_RAIL_PORT_CONTROL_H
#define MRAIL_RAIL_PORT_CONTROL_H

#include <stdint.h>

#define MRAIL_PORT_CONTROL_MAX_LANES 64

/* Whether a driver derives the port from the flow label. */
typedef enum mrail_port_driver {
    MRAIL_PORT_DRIVER_MEASURED, /* seen on the wire */
    MRAIL_PORT_DRIVER_SOURCE,   /* its source code does */
    MRAIL_PORT_DRIVER_UNKNOWN,
} mrail_port_driver_t;

/* How the port of a connected QP changes. */
typedef enum mrail_port_live {
    MRAIL_PORT_LIVE_NONE,   /* not at all: a new lane takes another port */
    MRAIL_PORT_LIVE_SQD,    /* RTS -> SQD -> SQD with a new path -> RTS */
    MRAIL_PORT_LIVE_MLX5DV, /* mlx5dv_modify_qp_udp_sport() in RTS */
} mrail_port_live_t;

typedef struct mrail_port_control {
    char driver[32]; /* kernel driver, "software rails", or "" */
    mrail_port_driver_t knowledge;
    mrail_port_live_t live;
    unsigned lag_port; /* RoCE LAG: physical port of the sample QP; 0: no LAG */
    uint16_t
        got[MRAIL_PORT_CONTROL_MAX_LANES]; /* 0: the device stores no label */
} mrail_port_control_t;

/*
 * Tries `num` ports on a rail, up to MRAIL_PORT_CONTROL_MAX_LANES. Opens and closes the device.
 * 0; -ENODEV: there is no such device; another -errno: a QP could not be made.
 */
int mrail_port_control_try(const char *device, unsigned port, int gid_index,
                           const uint8_t gid[16], const uint16_t *requested,
                           unsigned num, mrail_port_control_t *control_p);

/*
 * Changes the source port of a connected QP at once. 0; -EOPNOTSUPP: this driver
 * has no call for it, the send queue must be drained first; another -errno: the
 * call failed.
 */
struct ibv_qp;
int mrail_port_control_set(struct ibv_qp *qp, const char *device,
                           uint16_t sport);

/* The entry of a kernel driver in the table. */
mrail_port_driver_t mrail_port_control_driver(const char *driver);

/* A sentence part for users: how ports are set, and what is not certain. */
const char *mrail_port_control_words(const mrail_port_control_t *control);
const char *mrail_port_live_words(mrail_port_live_t live);

#endif

/*
 * Determines how a device controls the UDP source port of a QP, and which port
 * a QP actually uses. For this purpose, it creates a sample QP that is
 * connected to itself and does not send.
 *
 * The flow label sets the source port when the QP is connected
 * (orchestrator/ports.h). The device stores the label, and its driver or
 * hardware computes the port. The sample QP shows the label that the device has
 * stored, and a table of drivers records whether the port follows from it. The
 * port on the wire is visible only in a packet capture.
 */
#ifndef MRAIL_RAIL_PORT_CONTROL_H
#define MRAIL_RAIL_PORT_CONTROL_H

#include <stdint.h>

#define MRAIL_PORT_CONTROL_MAX_LANES 64

/* Whether a driver derives the port from the flow label. */
typedef enum mrail_port_driver {
    MRAIL_PORT_DRIVER_MEASURED, /* observed on the wire */
    MRAIL_PORT_DRIVER_SOURCE,   /* found in the driver's source code */
    MRAIL_PORT_DRIVER_UNKNOWN,
} mrail_port_driver_t;

/* How the port of a connected QP can be changed. */
typedef enum mrail_port_live {
    MRAIL_PORT_LIVE_NONE,   /* not possible; only a new lane has a new port */
    MRAIL_PORT_LIVE_SQD,    /* RTS -> SQD -> SQD with a new path -> RTS */
    MRAIL_PORT_LIVE_MLX5DV, /* mlx5dv_modify_qp_udp_sport() in RTS */
} mrail_port_live_t;

typedef struct mrail_port_control {
    char driver[32]; /* kernel driver, "software rails", or "" */
    mrail_port_driver_t knowledge;
    mrail_port_live_t live;
    unsigned lag_port; /* RoCE LAG: physical port of the sample QP; otherwise
                        * 0 */
    /* Port obtained for each requested port; 0 if the device does not store the
     * label. */
    uint16_t got[MRAIL_PORT_CONTROL_MAX_LANES];
} mrail_port_control_t;

/*
 * Creates a sample QP for each of `num` requested source ports, up to
 * MRAIL_PORT_CONTROL_MAX_LANES, and stores in *control_p which ports the device
 * used. Opens and closes the device. Returns 0, -ENODEV if the device cannot be
 * opened, or another -errno if a resource could not be created.
 */
int mrail_port_control_try(const char *device, unsigned port, int gid_index,
                           const uint8_t gid[16], const uint16_t *requested,
                           unsigned num, mrail_port_control_t *control_p);

struct ibv_qp;

/*
 * Changes the source port of a connected QP immediately. Returns 0, or
 * -EOPNOTSUPP if the driver has no call for this, in which case the caller must
 * drain the send queue. Returns another -errno if the call failed.
 */
int mrail_port_control_set(struct ibv_qp *qp, const char *device,
                           uint16_t sport);

#endif

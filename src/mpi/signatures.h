#ifndef MRAIL_MPI_SIGNATURES_H
#define MRAIL_MPI_SIGNATURES_H

/* Parts of the argument lists of functions of coll: as parameters, and as
 * arguments (_ARGS). */
#define MRAIL_SEND const void *sbuf, int scount, struct ompi_datatype_t *sdtype
#define MRAIL_SEND_ARGS sbuf, scount, sdtype
#define MRAIL_RECV void *rbuf, int rcount, struct ompi_datatype_t *rdtype
#define MRAIL_RECV_ARGS rbuf, rcount, rdtype
#define MRAIL_SENDV                                                            \
    const void *sbuf, const int *scounts, const int *sdisps,                   \
        struct ompi_datatype_t *sdtype
#define MRAIL_SENDV_ARGS sbuf, scounts, sdisps, sdtype
#define MRAIL_RECVV                                                            \
    void *rbuf, const int *rcounts, const int *rdisps,                         \
        struct ompi_datatype_t *rdtype
#define MRAIL_RECVV_ARGS rbuf, rcounts, rdisps, rdtype
#define MRAIL_SENDW(_disp)                                                     \
    const void *sbuf, const int *scounts, const _disp *sdisps,                 \
        struct ompi_datatype_t *const *sdtypes
#define MRAIL_SENDW_ARGS sbuf, scounts, sdisps, sdtypes
#define MRAIL_RECVW(_disp)                                                     \
    void *rbuf, const int *rcounts, const _disp *rdisps,                       \
        struct ompi_datatype_t *const *rdtypes
#define MRAIL_RECVW_ARGS rbuf, rcounts, rdisps, rdtypes

#endif

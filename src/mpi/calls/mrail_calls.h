/*
 * Open MPI coll component "mrailcalls": counts the collectives of each
 * communicator and the waits for messages. It writes the counts to the file
 * that telemetry/calls.h describes. `mrail diagnose` reads the file.
 *
 *   component  the file of this process              calls_component.c
 *   module     one for each communicator             calls_module.c
 *   waits      blocking point-to-point calls         calls_waits.c
 *
 * The module has the highest priority. After it has counted a call, it calls
 * the function of the previous module. The component needs no LD_PRELOAD, and
 * also counts the calls of Fortran programs. It does not count persistent
 * collectives, because MPI_Start() does not call coll functions.
 */
#ifndef MRAIL_MPI_CALLS_H
#define MRAIL_MPI_CALLS_H

#include "telemetry/calls.h"

#include "ompi/communicator/communicator.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"

/* The file of this process, or NULL. */
extern mrail_calls_t *mca_coll_mrailcalls_file;

/* Number of collectives in progress. Their internal messages do not count as
 * waits. Valid only without MPI_THREAD_MULTIPLE. */
extern int mca_coll_mrailcalls_inside;

mca_coll_base_module_t *
mca_coll_mrailcalls_comm_query(struct ompi_communicator_t *comm, int *priority);

/* Returns the index of a communicator in the file, or MRAIL_CALLS_COMMS. */
uint32_t mca_coll_mrailcalls_index(struct ompi_communicator_t *comm);

/* Begin and end the recording of waits. Without `begin`, `end` has no
 * effect. */
void mca_coll_mrailcalls_waits_begin(void);
void mca_coll_mrailcalls_waits_end(void);

#endif

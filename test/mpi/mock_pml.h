/*
 * Replaces the point-to-point layer of Open MPI, so that one process can
 * simulate all ranks without MPI_Init. A message is copied only once both its
 * send and its receive are posted. If a program changes a buffer too early, the
 * receiver therefore sees wrong bytes.
 */
#ifndef MRAIL_TEST_MOCK_PML_H
#define MRAIL_TEST_MOCK_PML_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"

#define MOCK_PML_MAX_RANKS 600u

void mock_pml_init(void);
/* Sets the number of ranks. */
void mock_pml_resize(unsigned num_ranks);
/* Returns the communicator as one rank sees it. */
ompi_communicator_t *mock_pml_comm(unsigned rank);
/* Returns 1 if every send and receive has been matched. */
int mock_pml_is_idle(void);
/* Returns the number of messages since the last call. */
unsigned mock_pml_count(void);

#endif

/* Registrations of the engine's own memory. */
#ifndef MRAIL_RAIL_ENGINE_MEM_H
#define MRAIL_RAIL_ENGINE_MEM_H

#include "rail/state/engine.h"

/* Like mrail_mem_reg(), but without remote access. The engine's own memory
 * contains pointers, so no peer may access it, even with a guessed key. */
int mrail_mem_reg_own(mrail_engine_t *engine, void *address, size_t length,
                      mrail_mem_t **mem_p);

#endif

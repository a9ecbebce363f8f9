/*
 * Applies faults to live software rails: the settings of fault/action.h are
 * kept in a session's shared memory. Any process of the session may call these
 * functions. Jobs notice a change when they next read the settings, or
 * immediately if the session daemon notifies them.
 */
#ifndef MRAIL_SROCE_FAULTS_H
#define MRAIL_SROCE_FAULTS_H

#include "softroce/fault/action.h"
#include "softroce/host/session.h"

void sroce_rail_fault_set(sroce_session_dev_t *dev,
                          sroce_fault_setting_t setting, uint64_t value);
/* Returns the current value, or if healthy != 0, the value at the rail's
 * creation. */
uint64_t sroce_rail_fault_get(const sroce_session_dev_t *dev,
                              sroce_fault_setting_t setting, int healthy);
/* Executes an action from the table: sets all of its settings. */
void sroce_rail_fault_do(sroce_session_dev_t *dev,
                         const sroce_fault_action_t *fault);
/* Restarts the random number generators of all processes on the rail from this
 * seed. */
void sroce_rail_fault_seed(sroce_session_dev_t *dev, uint64_t seed);

/* Returns the total traffic that all processes on the rail have sent. */
void sroce_rail_sent(const sroce_session_dev_t *dev, uint64_t *packets_p,
                     uint64_t *bytes_p);

#endif

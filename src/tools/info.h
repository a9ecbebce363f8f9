/* Reports of mrail info. */
#ifndef MRAIL_TOOLS_INFO_H
#define MRAIL_TOOLS_INFO_H

#include "base/json.h"
#include "rail/mrail.h"
#include "tools/tool.h"

#define MRAIL_INFO_COMMAND "info"

/* Shows the rails of this process, and the reason why each other port is not a
 * rail. Returns the exit status: 0, 1 if there is no rail, or 2 if a parameter
 * is invalid or excludes all ports. */
int mrail_info_rails(int json);

/* Runs a job through `mrail run` with the options `run`, and shows the
 * transport's memory per rank. Returns an exit status. */
int mrail_info_memory(const mrail_tool_args_t *run, int json);

/* Prints the events in the telemetry pages of this user's processes, sorted by
 * time, or in a mrail collect archive. If `dir` is NULL, uses pages_dir();
 * if `job` is NULL, includes all jobs. Returns an exit status. */
int mrail_info_events(const char *dir, const char *job, const char *archive,
                      int json);

/* Shows the parameters of the transport. Returns an exit status. */
int mrail_info_config(int json);

/* Prints the requested and the actual source ports of a rail's lanes, as
 * members of the open object or as lines of the table. */
void mrail_info_ports_json(mrail_json_t *json, const mrail_rail_attr_t *attr,
                           const mrail_config_t *config);
void mrail_info_ports(const mrail_rail_attr_t *attr,
                      const mrail_config_t *config);

/* Shows the GPUs and how the rails access their memory, as members of the open
 * object, or as a table if `json` is NULL. */
void mrail_info_gpus(mrail_json_t *json, const mrail_rail_attr_t *rails,
                     unsigned count);

/* Warns on stderr about unknown UCX_MRAIL_* variables in the environment. */
void mrail_info_unknown_variables(void);

#endif

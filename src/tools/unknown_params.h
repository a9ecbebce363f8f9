/* Finds UCX_MRAIL_* variables that do not exist. */
#ifndef MRAIL_TOOLS_UNKNOWN_PARAMS_H
#define MRAIL_TOOLS_UNKNOWN_PARAMS_H

typedef void (*mrail_unknown_param_func_t)(void *arg, const char *name,
                                           const char *nearest);

/* Calls `func` for each UCX_MRAIL_* variable of `env` (in the form of
 * environ(7)) that neither the engine nor the transport knows. `nearest` is the
 * most similar known name, without UCX_MRAIL_, or NULL. It is valid only during
 * the call. UCX itself reports such variables as unused when the process exits.
 * UCX 1.13 does not suggest a name; later versions do. */
void mrail_unknown_params(char *const *env, mrail_unknown_param_func_t func,
                          void *arg);

#endif

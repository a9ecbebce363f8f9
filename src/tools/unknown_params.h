/* Finds UCX_MRAIL_* variables that do not exist. */
#ifndef MRAIL_TOOLS_UNKNOWN_PARAMS_H
#define MRAIL_TOOLS_UNKNOWN_PARAMS_H

typedef void (*mrail_unknown_param_func_t)(void *arg, const char *name,
                                           const char *nearest);

/* Calls `func` for each UCX_MRAIL_* variable of `env` (in the form of
 * environ(7)) that neither the engine nor the transport knows. `nearest` is the
 * most similar known name, without UCX_MRAIL_, or NULL; it is valid during the
 * call. UCX itself reports such variables as unused, but does not suggest a
 * name. */
void mrail_unknown_params(char *const *env, mrail_unknown_param_func_t func,
                          void *arg);

#endif

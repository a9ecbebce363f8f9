/*
 * Control messages as they arrive on the UD queue pairs. Earlier messages,
 * timers, the program and device failures determine the state of the engine.
 * See engine_env.h.
 */
#include "config.h"
#include "engine_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    env_start(data, size);
    while (fuzz_left(&env.in) != 0) {
        uint8_t what = fuzz_u8(&env.in) % 16;

        if (what == 0) {
            env_ctl_raw();
        } else if (what < 11) {
            env_ctl_message();
        } else if (what < 12) {
            env_am_message();
        } else {
            env_do_something();
        }
    }
    env_end();
    return 0;
}

/*
 * Fuzzes input from a connected peer on its lanes: headers of active messages,
 * acknowledgements, credits and sequence numbers, in any order and number. At
 * the same time, the program sends, writes, reads and flushes. See
 * engine_env.h.
 */
#include "config.h"
#include "engine_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    env_start(data, size);
    env_connect();
    while (fuzz_left(&env.in) != 0) {
        uint8_t what = fuzz_u8(&env.in) % 16;

        if (what == 0) {
            env_ctl_message();
        } else if (what < 10) {
            env_am_message();
        } else {
            env_do_something();
        }
    }
    env_end();
    return 0;
}

/*
 * Input from a connected peer on its lanes: headers of active messages,
 * acknowledgements, credits and sequence numbers, in any order and number. The
 * program sends, writes, reads and flushes meanwhile. See engine_env.h.
 */
#include "config.h"
#include "engine_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_start(data, size);
    world_connect();
    while (fuzz_left(&world.in) != 0) {
        uint8_t what = fuzz_u8(&world.in) % 16;

        if (what == 0) {
            world_ctl_message();
        } else if (what < 10) {
            world_am_message();
        } else {
            world_do_something();
        }
    }
    world_end();
    return 0;
}

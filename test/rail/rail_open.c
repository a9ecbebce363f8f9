/* Opens and closes the engine. The exit status is 0, or 3 if the engine cannot
 * be opened. */
#include "config.h"
#include "rail/mrail.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    mrail_engine_t *engine;
    mrail_config_t config;
    int ret;

    ret = mrail_config_from_env(&config);
    if (ret == 0) {
        ret = mrail_engine_open(&config, &engine);
        mrail_config_cleanup(&config);
    }
    if (ret != 0) {
        printf("# cannot open: %s\n", strerror(-ret));
        return 3;
    }
    mrail_engine_close(engine);
    return 0;
}

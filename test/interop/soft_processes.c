/* Opens device 0 argv[1] times (default 1). Exits with 0 if every open
 * succeeds. */
#include <infiniband/verbs.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    int num = (argc > 1) ? atoi(argv[1]) : 1;

    for (int i = 0; i < num; ++i) {
        if (ibv_open_device(list[0]) == NULL) {
            return 1;
        }
    }
    return 0;
}

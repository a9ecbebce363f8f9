/*
 * The two processes of a UCT test, and the socket between them.
 */
#include "config.h"
#include "uct_side.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int report_error(const char *what, ucs_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
    return -1;
}

void side_fill(uint8_t *buffer, uint64_t seed, uint64_t offset, size_t length)
{
    for (size_t i = 0; i < length; ++i) {
        buffer[i] = side_pattern(seed, offset + i);
    }
}

int side_has(const uint8_t *buffer, uint64_t seed, uint64_t offset,
             size_t length)
{
    for (size_t i = 0; i < length; ++i) {
        if (buffer[i] != side_pattern(seed, offset + i)) {
            fprintf(stderr, "byte %zu of %zu: 0x%02x, not 0x%02x\n", i, length,
                    buffer[i], side_pattern(seed, offset + i));
            return 0;
        }
    }
    return 1;
}

static ucs_status_t on_seq(void *arg, void *data, size_t length, unsigned flags)
{
    side_t *side = arg;
    uint64_t seq;

    memcpy(&seq, data, sizeof(seq));
    if (length < sizeof(seq) || seq != side->num_seq ||
        !side_has((uint8_t *)data + sizeof(seq), seq, 0,
                  length - sizeof(seq))) {
        ++side->num_disorder;
    }
    ++side->num_seq;
    return UCS_OK;
}

static ucs_status_t on_check(void *arg, void *data, size_t length,
                             unsigned flags)
{
    side_t *side = arg;
    side_check_t check;

    memcpy(&check, data, sizeof(check));
    ++side->num_checks;
    if (!side_has(side->buffer + check.offset, check.seed, check.offset,
                  check.length)) {
        ++side->num_wrong;
    }
    return UCS_OK;
}

static ucs_status_t on_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    side_t *side = arg;

    ++side->num_lost;
    side->lost_status = status;
    return UCS_OK;
}

static int open_md(side_t *side)
{
    uct_component_h *components;
    uct_md_config_t *config;
    const char *gpus;
    unsigned count;
    ucs_status_t status;

    /* Loads the library here instead of with LD_PRELOAD. LD_PRELOAD would also
     * load it into every helper process, without the sanitizer runtime that it
     * may need. */
    if (getenv("MRAIL_UCT_PATH") != NULL &&
        dlopen(getenv("MRAIL_UCT_PATH"), RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    gpus = getenv("MRAIL_TEST_GPUS");
    if (gpus != NULL && strcmp(gpus, "early") == 0 &&
        dlopen("libcuda.so.1", RTLD_NOW) == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    status = uct_query_components(&components, &count);
    if (status != UCS_OK) {
        return report_error("uct_query_components", status);
    }
    for (unsigned i = 0; i < count; ++i) {
        side->component_attr.field_mask =
            UCT_COMPONENT_ATTR_FIELD_NAME |
            UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        uct_component_query(components[i], &side->component_attr);
        if (strcmp(side->component_attr.name, "mrail") == 0) {
            side->component = components[i];
            break;
        }
    }
    uct_release_component_list(components);
    if (side->component == NULL ||
        side->component_attr.md_resource_count == 0) {
        fprintf(stderr, "%s\n",
                side->component == NULL ? "UCX has no component mrail"
                                        : "mrail has no rail");
        return -1;
    }
    status = uct_md_config_read(side->component, NULL, NULL, &config);
    if (status == UCS_OK) {
        status = uct_md_open(side->component, "mrail", config, &side->md);
        uct_config_release(config);
    }
    if (status == UCS_OK) {
        status = uct_md_query(side->md, &side->md_attr);
    }
    return (status == UCS_OK) ? 0 : report_error("md", status);
}

int side_open(side_t *side)
{
    uct_iface_params_t params = {
        .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                      UCT_IFACE_PARAM_FIELD_DEVICE |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG,
        .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device = {.tl_name = "mrail", .dev_name = "mrail:1"},
        .err_handler = on_error,
        .err_handler_arg = side,
    };
    uct_iface_config_t *config;
    ucs_status_t status;

    if (open_md(side) != 0) {
        return -1;
    }
    status =
        ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &side->async);
    if (status == UCS_OK) {
        status = uct_worker_create(side->async, UCS_THREAD_MODE_SINGLE,
                                   &side->worker);
    }
    if (status == UCS_OK) {
        status =
            uct_md_iface_config_read(side->md, "mrail", NULL, NULL, &config);
    }
    if (status == UCS_OK) {
        status = uct_iface_open(side->md, side->worker, &params, config,
                                &side->iface);
        uct_config_release(config);
    }
    if (status == UCS_OK) {
        status = uct_iface_query(side->iface, &side->attr);
    }
    if (status != UCS_OK) {
        return report_error("iface", status);
    }
    uct_iface_progress_enable(side->iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    uct_iface_set_am_handler(side->iface, SIDE_AM_SEQ, on_seq, side, 0);
    uct_iface_set_am_handler(side->iface, SIDE_AM_CHECK, on_check, side, 0);
    return 0;
}

const uct_mrail_direct_ops_t *side_direct_ops(void)
{
    void *file = dlopen("libuct_mrail.so.0", RTLD_NOW | RTLD_NOLOAD);
    uct_mrail_direct_func_t func = NULL;

    if (file != NULL) {
        *(void **)&func = dlsym(file, "uct_mrail_direct");
        dlclose(file);
    }
    return (func != NULL) ? func() : NULL;
}

static void drop_direct(side_t *side)
{
    if (side->direct_mem != NULL) {
        side_direct_ops()->mem_put(side->direct_mem);
        side->direct_mem = NULL;
    }
}

static void drop_buffer(side_t *side)
{
    drop_direct(side);
    if (side->buffer != NULL) {
        uct_md_mem_dereg(side->md, side->memh);
        munmap(side->buffer, side->size);
        side->buffer = NULL;
    }
}

void side_close(side_t *side)
{
    drop_buffer(side);
    if (side->ep != NULL) {
        uct_ep_destroy(side->ep);
    }
    uct_iface_close(side->iface);
    uct_worker_destroy(side->worker);
    ucs_async_context_destroy(side->async);
    uct_md_close(side->md);
    close(side->fd);
}

/* ---- commands ---- */

static int map_buffer(side_t *side, size_t size, void *where)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);
    ucs_status_t status;

    side->buffer = mmap(where, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (side->buffer == MAP_FAILED) {
        side->buffer = NULL;
        return -1;
    }
    side->size = size;
    status = uct_md_mem_reg(side->md, side->buffer, size, UCT_MD_MEM_ACCESS_ALL,
                            &side->memh);
    return (status == UCS_OK) ? 0 : report_error("mem_reg", status);
}

static int answer_buffer(side_t *side, side_message_t *message)
{
    if (side->md_attr.rkey_packed_size > SIDE_RKEY_MAX) {
        return -1;
    }
    message->arg[0] = (uintptr_t)side->buffer;
    message->length = (uint32_t)side->md_attr.rkey_packed_size;
    return uct_md_mkey_pack(side->md, side->memh, message->data) == UCS_OK ? 0
                                                                           : -1;
}

static int answer_direct(side_t *side, side_message_t *message)
{
    const uct_mrail_direct_ops_t *ops = side_direct_ops();
    size_t length;

    drop_direct(side);
    length = (ops != NULL) ? ops->address(message->data) : 0;
    if (length == 0 ||
        ops->mem_get(side->buffer, side->size, &side->direct_mem) != 0) {
        return -1;
    }
    message->arg[0] = (uintptr_t)side->buffer;
    message->arg[1] = length;
    message->arg[2] = ops->key_pack(side->direct_mem, message->data + length);
    message->length = (uint32_t)(message->arg[1] + message->arg[2]);
    return 0;
}

static int handle_hello(side_t *side, side_message_t *message);

static int handle_request(side_t *side, side_message_t *message)
{
    uint64_t *arg = message->arg;
    uint8_t *where;
    size_t size;

    switch (message->op) {
    case SIDE_OP_HELLO:
        return handle_hello(side, message);
    case SIDE_OP_BUFFER:
        drop_buffer(side);
        return map_buffer(side, arg[0], NULL) || answer_buffer(side, message);
    case SIDE_OP_REMAP:
        where = side->buffer;
        size = side->size;
        drop_buffer(side);
        return map_buffer(side, size, where) || answer_buffer(side, message);
    case SIDE_OP_DIRECT:
        return answer_direct(side, message);
    case SIDE_OP_FILL:
        side_fill(side->buffer + arg[1], arg[0], arg[1], arg[2]);
        return 0;
    case SIDE_OP_CHECK:
        arg[0] = side_has(side->buffer + arg[1], arg[0], arg[1], arg[2]);
        return 0;
    case SIDE_OP_STATS:
        arg[0] = side->num_seq;
        arg[1] = side->num_disorder;
        arg[2] = side->num_checks;
        arg[3] = side->num_wrong;
        return 0;
    case SIDE_OP_PAUSE:
        usleep((useconds_t)(arg[0] * 1000));
        return 0;
    default:
        return 0;
    }
}

/* ---- addresses ---- */

/* Packs both addresses into `data`, one after the other. */
static int pack_address(side_t *side, side_message_t *message)
{
    size_t device = side->attr.device_addr_len;
    size_t iface = side->attr.iface_addr_len;

    if (device + iface > SIDE_ADDR_MAX) {
        return -1;
    }
    message->op = SIDE_OP_HELLO;
    message->length = (uint32_t)(device + iface);
    return uct_iface_get_device_address(side->iface,
                                        (uct_device_addr_t *)message->data) ||
           uct_iface_get_address(side->iface,
                                 (uct_iface_addr_t *)(message->data + device));
}

static int connect_to(side_t *side, const side_message_t *message)
{
    const uct_device_addr_t *device = (const void *)message->data;
    const uct_iface_addr_t *iface =
        (const void *)(message->data + side->attr.device_addr_len);
    uct_ep_params_t params = {
        .field_mask = UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR |
                      UCT_EP_PARAM_FIELD_IFACE_ADDR,
        .iface = side->iface,
        .dev_addr = device,
        .iface_addr = iface,
    };

    if (!uct_iface_is_reachable(side->iface, device, iface)) {
        fprintf(stderr, "the peer's address is not reachable\n");
        return -1;
    }
    return uct_ep_create(&params, &side->ep) == UCS_OK ? 0 : -1;
}

static int handle_hello(side_t *side, side_message_t *message)
{
    return connect_to(side, message) || pack_address(side, message);
}

int side_connect(side_t *side)
{
    side_message_t message;

    return pack_address(side, &message) || side_call(side, &message) ||
           connect_to(side, &message);
}

/* ---- the socket ---- */

int side_spawn(side_t *side, const char *program)
{
    int fds[2];
    char number[16];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        close(fds[0]);
        setenv("MRAIL_SOFT_NODE", "1", 1);
        snprintf(number, sizeof(number), "%d", fds[1]);
        execl(program, program, "--peer", number, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    side->fd = fds[0];
    side->pid = pid;
    return (pid > 0) ? 0 : -1;
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Returns 1 for a message, 0 if there is none yet, or -1 if the other process
 * has ended. */
static int receive(side_t *side, side_message_t *message)
{
    ssize_t ret = recv(side->fd, message, sizeof(*message), MSG_DONTWAIT);

    if (ret == (ssize_t)sizeof(*message)) {
        return 1;
    }
    return (ret < 0 && errno == EAGAIN) ? 0 : -1;
}

int side_call(side_t *side, side_message_t *message)
{
    double end_s = now_s() + SIDE_TIMEOUT_S;
    int ret = 0;

    if (send(side->fd, message, sizeof(*message), MSG_NOSIGNAL) < 0) {
        return -1;
    }
    while (ret == 0 && now_s() < end_s) {
        uct_worker_progress(side->worker);
        ret = receive(side, message);
    }
    return (ret == 1 && message->op != UINT32_MAX) ? 0 : -1;
}

int side_serve(side_t *side)
{
    side_message_t message;
    int ret;

    for (;;) {
        for (int i = 0; i < 64; ++i) {
            uct_worker_progress(side->worker);
        }
        ret = receive(side, &message);
        if (ret < 0) {
            return 1; /* the test has ended */
        }
        if (ret == 0) {
            continue;
        }
        if (handle_request(side, &message) != 0) {
            message.op = UINT32_MAX;
        }
        (void)send(side->fd, &message, sizeof(message), MSG_NOSIGNAL);
        if (message.op == SIDE_OP_QUIT) {
            return 0;
        }
    }
}

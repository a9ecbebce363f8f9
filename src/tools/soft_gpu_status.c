/* mrail soft status shows the software GPUs of a session. */
#include "config.h"
#include "soft_gpu.h"
#include "soft_gpu_fault.h"
#include "softgpu/not_served.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char *const not_served_names[] = {
#define SOFT_GPU_NAME(_symbol) #_symbol,
    SGPU_NOT_SERVED(SOFT_GPU_NAME)
#undef SOFT_GPU_NAME
};

static uint64_t soft_gpu_sum(const sgpu_gpu_t *gpu, unsigned counter)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < SGPU_SESSION_SLOTS; ++i) {
        total += gpu->slots[i].counters[counter];
    }
    return total;
}

sgpu_session_t *soft_gpu_open(const char *session, int *fd_p)
{
    sgpu_session_t *gpus;
    char path[128];

    sroce_session_path(session, SROCE_SESSION_GPUS, path, sizeof(path));
    return (sgpu_session_open(path, &gpus, fd_p) == 0) ? gpus : NULL;
}

static void soft_gpu_link_json(mrail_json_t *json, const char *name,
                               const sgpu_link_t *link)
{
    mrail_json_object(json, name);
    mrail_json_uint(json, "bytes_per_s", link->rate_bytes_per_s);
    mrail_json_uint(json, "bytes", link->bytes);
    mrail_json_bool(json, "down", link->is_down != 0);
    mrail_json_object_end(json);
}

static void soft_gpu_links_json(mrail_json_t *json, const sgpu_session_t *gpus,
                                const sgpu_gpu_t *gpu)
{
    char name[24];

    soft_gpu_link_json(json, "pcie_in", &gpu->pcie_in);
    soft_gpu_link_json(json, "pcie_out", &gpu->pcie_out);
    if (gpus->link_kind == SGPU_LINK_SWITCH) {
        soft_gpu_link_json(json, "up", &gpu->up);
        soft_gpu_link_json(json, "down", &gpu->down);
    }
    for (unsigned i = 0;
         (gpus->link_kind == SGPU_LINK_MESH) && (i < gpus->num_gpus); ++i) {
        if (i != gpu->index) {
            snprintf(name, sizeof(name), "to_%u", i);
            soft_gpu_link_json(json, name, &gpu->mesh[i]);
        }
    }
}

static void soft_gpu_device_json(mrail_json_t *json, const sgpu_session_t *gpus,
                                 int fd, const sgpu_gpu_t *gpu)
{
    unsigned procs;
    uint64_t used = sgpu_session_usage(gpus, fd, gpu, &procs);

    mrail_json_object(json, NULL);
    mrail_json_uint(json, "node", gpu->node);
    mrail_json_uint(json, "gpu", gpu->index);
    mrail_json_uint(json, "memory_bytes", gpus->memory_bytes);
    mrail_json_uint(json, "memory_used_bytes", used);
    mrail_json_uint(json, "processes", procs);
    for (unsigned c = 0; c < SGPU_CNT_NUM; ++c) {
        mrail_json_uint(json, sgpu_counter_names[c], soft_gpu_sum(gpu, c));
    }
    for (unsigned s = SROCE_FAULT_GPU_IPC_ERROR; s <= SROCE_FAULT_GPU_NO_DEVICE;
         ++s) {
        uint32_t settings = SROCE_FAULT_BIT(s);

        mrail_json_bool(json, soft_gpu_fault_name(settings),
                        (gpu->faults & soft_gpu_fault_bits(settings)) != 0);
    }
    mrail_json_uint(json, "copy_error", gpu->copy_errors);
    mrail_json_object(json, "links");
    soft_gpu_links_json(json, gpus, gpu);
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

/* ---- Processes ---- */

static uint64_t soft_gpu_own(const sgpu_slot_t *slot, unsigned counter)
{
    return slot->counters[counter] - slot->first[counter];
}

/* Calls func for each live process on each GPU that it has used. */
static void soft_gpu_each(const sgpu_session_t *gpus, int fd,
                          void (*func)(void *arg, int32_t pid,
                                       const sgpu_gpu_t *gpu,
                                       const sgpu_slot_t *slot),
                          void *arg)
{
    for (unsigned i = 0; i < SGPU_SESSION_SLOTS; ++i) {
        int32_t pid = sgpu_session_pid(gpus, fd, i);

        for (unsigned g = 0;
             (pid != 0) && (g < gpus->num_nodes * gpus->num_gpus); ++g) {
            const sgpu_slot_t *slot = &gpus->gpus[g].slots[i];
            uint64_t used = slot->memory_bytes;

            for (unsigned c = 0; c < SGPU_CNT_NUM; ++c) {
                used |= soft_gpu_own(slot, c);
            }
            if (used != 0) {
                func(arg, pid, &gpus->gpus[g], slot);
            }
        }
    }
}

static void soft_gpu_process_json(void *arg, int32_t pid, const sgpu_gpu_t *gpu,
                                  const sgpu_slot_t *slot)
{
    mrail_json_t *json = arg;

    mrail_json_newline(json);
    mrail_json_object(json, NULL);
    mrail_json_uint(json, "pid", (uint64_t)pid);
    mrail_json_uint(json, "node", gpu->node);
    mrail_json_uint(json, "gpu", gpu->index);
    mrail_json_uint(json, "own_memory_bytes", slot->memory_bytes);
    for (unsigned c = 0; c < SGPU_CNT_NUM; ++c) {
        char name[32];

        snprintf(name, sizeof(name), "own_%s", sgpu_counter_names[c]);
        mrail_json_uint(json, name, soft_gpu_own(slot, c));
    }
    mrail_json_object_end(json);
}

static void soft_gpu_process_row(void *arg, int32_t pid, const sgpu_gpu_t *gpu,
                                 const sgpu_slot_t *slot)
{
    int *is_first = arg;
    uint64_t copies = 0;

    for (unsigned c = SGPU_CNT_COPIES_IN; c <= SGPU_CNT_COPIES_PEER; c += 2) {
        copies += soft_gpu_own(slot, c);
    }
    if (*is_first) {
        printf("%8s %4s %-7s %10s %8s %10s %8s\n", "process", "node", "device",
               "used MiB", "launches", "SM ms", "copies");
    }
    *is_first = 0;
    printf("%8d %4u gpu%-4u %10.3f %8" PRIu64 " %10.3f %8" PRIu64 "\n", pid,
           gpu->node, gpu->index, (double)slot->memory_bytes / 0x1p20,
           soft_gpu_own(slot, SGPU_CNT_LAUNCHES),
           (double)soft_gpu_own(slot, SGPU_CNT_SM_NS) / 1e6, copies);
}

void soft_gpu_json(const char *session, mrail_json_t *json)
{
    int fd = -1;
    sgpu_session_t *gpus = soft_gpu_open(session, &fd);

    if (gpus == NULL) {
        return;
    }
    mrail_json_string(json, "gpu_link", sgpu_link_kind_names[gpus->link_kind]);
    mrail_json_bool(json, "peermem", gpus->has_peermem != 0);
    mrail_json_array(json, "gpus");
    for (unsigned i = 0; i < gpus->num_nodes * gpus->num_gpus; ++i) {
        mrail_json_newline(json);
        soft_gpu_device_json(json, gpus, fd, &gpus->gpus[i]);
    }
    mrail_json_array_end(json);
    mrail_json_array(json, "gpu_processes");
    soft_gpu_each(gpus, fd, soft_gpu_process_json, json);
    mrail_json_array_end(json);
    mrail_json_object(json, "not_served");
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(not_served_names); ++i) {
        if (gpus->not_served[i] != 0) {
            mrail_json_uint(json, not_served_names[i], gpus->not_served[i]);
        }
    }
    mrail_json_object_end(json);
    sgpu_session_close(gpus);
    close(fd);
}

static void soft_gpu_rate(uint64_t bytes_per_s, char *text, size_t max)
{
    if (bytes_per_s == 0) {
        snprintf(text, max, "max");
    } else {
        snprintf(text, max, "%.6gMB", (double)bytes_per_s / 1e6);
    }
}

static void soft_gpu_row(const sgpu_session_t *gpus, int fd,
                         const sgpu_gpu_t *gpu)
{
    unsigned procs;
    uint64_t used = sgpu_session_usage(gpus, fd, gpu, &procs), copies = 0;

    for (unsigned c = SGPU_CNT_COPIES_IN; c <= SGPU_CNT_COPIES_PEER; c += 2) {
        copies += soft_gpu_sum(gpu, c);
    }
    printf("%4u gpu%-4u %5u %10.3f %10.3f %8" PRIu64 " %8" PRIu64
           " %10.3f %10.3f %10.3f %10.3f\n",
           gpu->node, gpu->index, procs, (double)used / 0x1p20,
           (double)gpus->memory_bytes / 0x1p20,
           soft_gpu_sum(gpu, SGPU_CNT_LAUNCHES), copies,
           (double)soft_gpu_sum(gpu, SGPU_CNT_BYTES_IN) / 0x1p20,
           (double)soft_gpu_sum(gpu, SGPU_CNT_BYTES_OUT) / 0x1p20,
           (double)soft_gpu_sum(gpu, SGPU_CNT_BYTES_LOCAL) / 0x1p20,
           (double)soft_gpu_sum(gpu, SGPU_CNT_BYTES_PEER) / 0x1p20);
}

/* Prints the links whose rate was changed or that are down. */
static void soft_gpu_link_row(const sgpu_session_t *gpus, const sgpu_gpu_t *gpu,
                              const char *name, const sgpu_link_t *link)
{
    char rate[24];

    if (link->is_down) {
        printf("fault: node %u gpu%u: link %s is down\n", gpu->node, gpu->index,
               name);
    } else if (link->rate_bytes_per_s != gpus->first_link_rate_bytes_per_s) {
        soft_gpu_rate(link->rate_bytes_per_s, rate, sizeof(rate));
        printf("fault: node %u gpu%u: link %s is limited to %s/s\n", gpu->node,
               gpu->index, name, rate);
    }
}

static void soft_gpu_faults(const sgpu_session_t *gpus, const sgpu_gpu_t *gpu)
{
    char text[128];

    soft_gpu_fault_names(gpu, text, sizeof(text));
    if (text[0] != '\0') {
        printf("fault: node %u gpu%u: %s\n", gpu->node, gpu->index, text);
    }
    if (gpu->copy_errors != 0) {
        printf("fault: node %u gpu%u: the next %u copies fail\n", gpu->node,
               gpu->index, gpu->copy_errors);
    }
    if (gpus->link_kind == SGPU_LINK_SWITCH) {
        soft_gpu_link_row(gpus, gpu, "to the switch", &gpu->up);
        soft_gpu_link_row(gpus, gpu, "from the switch", &gpu->down);
    }
    for (unsigned i = 0;
         (gpus->link_kind == SGPU_LINK_MESH) && (i < gpus->num_gpus); ++i) {
        if (i != gpu->index) {
            snprintf(text, sizeof(text), "to gpu%u", i);
            soft_gpu_link_row(gpus, gpu, text, &gpu->mesh[i]);
        }
    }
}

void soft_gpu_table(const char *session)
{
    int fd = -1;
    sgpu_session_t *gpus = soft_gpu_open(session, &fd);
    char link[24], pcie[24];
    int is_first = 1;

    if (gpus == NULL) {
        return;
    }
    soft_gpu_rate(gpus->first_link_rate_bytes_per_s, link, sizeof(link));
    soft_gpu_rate(gpus->first_pcie_rate_bytes_per_s, pcie, sizeof(pcie));
    printf("%u GPUs per node, links %s %s/s, PCIe %s/s%s\n", gpus->num_gpus,
           sgpu_link_kind_names[gpus->link_kind], link, pcie,
           gpus->has_peermem ? ", peermem" : "");
    printf("%4s %-7s %5s %10s %10s %8s %8s %10s %10s %10s %10s\n", "node",
           "device", "procs", "used MiB", "of MiB", "launches", "copies",
           "in MiB", "out MiB", "local MiB", "peer MiB");
    for (unsigned i = 0; i < gpus->num_nodes * gpus->num_gpus; ++i) {
        soft_gpu_row(gpus, fd, &gpus->gpus[i]);
    }
    soft_gpu_each(gpus, fd, soft_gpu_process_row, &is_first);
    for (unsigned i = 0; i < gpus->num_nodes * gpus->num_gpus; ++i) {
        soft_gpu_faults(gpus, &gpus->gpus[i]);
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(not_served_names); ++i) {
        if (gpus->not_served[i] != 0) {
            printf("not supported: %s, %" PRIu64 " calls\n",
                   not_served_names[i], gpus->not_served[i]);
        }
    }
    sgpu_session_close(gpus);
    close(fd);
}

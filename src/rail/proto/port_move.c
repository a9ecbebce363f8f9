#include "config.h"
#include "rail/proto/port_move.h"

#include "base/seq.h"

/* Returns 1 if the request is newer than all earlier ones. */
static int mrail_port_move_is_newer(uint32_t *newest_p, uint32_t seq)
{
    if ((*newest_p != 0) && !mrail_seq32_before(*newest_p, seq)) {
        return 0;
    }
    *newest_p = seq;
    return 1;
}

int mrail_port_move_request(mrail_port_move_t *move, uint32_t *newest_p,
                            uint32_t seq, mrail_ns_t now_ns)
{
    if (seq == 0) {
        if (move->undo_seq == 0) {
            move->undo = 0; /* a new decision makes the earlier one permanent */
        }
        return move->end_ns == 0;
    }
    return mrail_port_move_is_newer(newest_p, seq) && (move->end_ns == 0) &&
           ((move->begun_ns == 0) ||
            (now_ns >= move->begun_ns + MRAIL_MOVE_WINDOW));
}

uint16_t mrail_port_move_back(mrail_port_move_t *move, uint32_t *newest_p,
                              uint32_t seq, uint16_t sport)
{
    uint16_t to = move->undo;

    if (seq != 0) {
        /* Makes the MOVE with this number obsolete if it arrives later. */
        (void)mrail_port_move_is_newer(newest_p, seq);
    }
    if (move->end_ns != 0) {
        if ((move->seq == seq) && !move->is_back) {
            move->to = sport;
            move->is_back = 1;
        }
        return 0;
    }
    if (move->undo_seq != seq) {
        return 0;
    }
    move->undo = 0;
    return to;
}

void mrail_port_move_begin(mrail_port_move_t *move, uint16_t to, uint32_t seq,
                           int is_back, mrail_ns_t now_ns)
{
    move->to = to;
    move->seq = seq;
    move->is_back = (uint8_t)is_back;
    move->begun_ns = now_ns;
    move->end_ns = now_ns + MRAIL_MOVE_TIMEOUT;
}

uint16_t mrail_port_move_done(mrail_port_move_t *move, uint16_t sport)
{
    move->end_ns = 0;
    if (move->to != sport) { /* otherwise, the move was undone in progress */
        move->undo = move->is_back ? 0 : sport;
        move->undo_seq = move->seq;
    }
    return move->to;
}

void mrail_move_request_begin(mrail_move_request_t *request, uint32_t seq,
                              uint16_t like, mrail_ns_t now_ns)
{
    *request = (mrail_move_request_t){.state = MRAIL_MOVE_REQUEST_DRAINS,
                                      .seq = seq,
                                      .like = like,
                                      .since_ns = now_ns};
}

void mrail_move_request_back(mrail_move_request_t *request, mrail_ns_t now_ns)
{
    if ((request->state == MRAIL_MOVE_REQUEST_DRAINS) && !request->is_back) {
        /* MOVE was not sent yet. Drop it and release the lane. */
        request->seq = 0;
        request->since_ns = now_ns - MRAIL_MOVE_TIMEOUT;
    } else if (request->seq != 0) {
        request->is_back = 1;
        request->state = MRAIL_MOVE_REQUEST_DRAINS;
        request->since_ns = now_ns;
    }
}

mrail_move_request_action_t
mrail_move_request_next(mrail_move_request_t *request, int is_idle, int is_same,
                        mrail_ns_t now_ns)
{
    int is_draining = (request->state == MRAIL_MOVE_REQUEST_DRAINS);

    if (is_same &&
        (now_ns < request->since_ns +
                      (is_draining ? MRAIL_MOVE_TIMEOUT : MRAIL_MOVE_HOLD))) {
        return (is_draining && is_idle) ? MRAIL_MOVE_REQUEST_SEND
                                        : MRAIL_MOVE_REQUEST_WAIT;
    }
    if (!is_same || is_draining) {
        request->seq = 0; /* the request was dropped, or was for another lane */
    }
    request->state = MRAIL_MOVE_REQUEST_NONE;
    return MRAIL_MOVE_REQUEST_RELEASE;
}

void mrail_move_request_sent(mrail_move_request_t *request, mrail_ns_t now_ns)
{
    request->state = MRAIL_MOVE_REQUEST_SENT;
    request->since_ns = now_ns;
    if (request->is_back) {
        request->seq = 0;
    }
}

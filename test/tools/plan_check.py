"""Checks the output of mrail plan; used by plan.sh.

usage: plan_check.py NAME pieces JSON DEMANDS|- RANKS_PER_NODE
       plan_check.py NAME gap JSON GAP
       plan_check.py NAME arms JSON NOT_SERVED
       plan_check.py NAME name JSON TOPOLOGY
       plan_check.py NAME svg FILE CELLS

If a check fails, prints a message and exits with status 1.
"""
import collections
import json
import sys
import xml.etree.ElementTree


def check(right, sentence):
    if not right:
        sys.exit(sentence)


def read_demands(path):
    """Returns the bytes for each pair of ranks, summed over lines FROM TO BYTES
    (see plan_text.h)."""
    factor = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    sums = collections.Counter()
    for line in open(path, encoding="ascii"):
        ends, size = line.split()[:2], line.split()[2]
        number = int(size.rstrip("kmg")) * factor.get(size[-1], 1)
        lists = []
        for end in ends:
            first, _, last = end.partition("-")
            lists.append(range(int(first), int(last or first) + 1))
        for a in lists[0]:
            for b in lists[1]:
                sums[a, b] += number
    return sums


def links_of(piece, sender, receiver, node_ranks):
    """Yields the links that a piece crosses, identified by kind and ends."""
    at = sender
    if piece["relay_out"] is not None:
        yield from hop(at, piece["relay_out"])
        at = piece["relay_out"]
    if piece["rail_out"] is None:
        check(piece["rail_in"] is None, "rail_in is given without rail_out")
        check(at // node_ranks == receiver // node_ranks, "no rail between two nodes")
        yield from hop(at, receiver)
        return
    into = receiver if piece["relay_in"] is None else piece["relay_in"]
    check(into // node_ranks == receiver // node_ranks, "the relay is on another node")
    yield "reach_out", at, piece["rail_out"]
    yield "rail_out", at // node_ranks, piece["rail_out"]
    yield "rail_in", into // node_ranks, piece["rail_in"]
    yield "reach_in", into, piece["rail_in"]
    groups = at // node_ranks // 2, into // node_ranks // 2
    if groups[0] != groups[1]:
        yield "uplink_up", groups[0], piece["rail_out"]
        yield "uplink_down", groups[1], piece["rail_in"]
    if into != receiver:
        yield from hop(into, receiver)


def hop(a, b):
    """Yields both kinds of link within a node. The plan lists only the kind
    that exists."""
    check(a != b, "a hop to the same rank")
    yield "gpu_link", a, b
    yield "switch_up", a, None
    yield "switch_down", b, None


def link_key(link):
    ends = {"rail_out": "node rail", "rail_in": "node rail",
            "uplink_up": "leaf_group rail", "uplink_down": "leaf_group rail",
            "gpu_link": "from to", "reach_out": "rank rail",
            "reach_in": "rank rail"}.get(link["kind"], "rank none").split()
    return link["kind"], link[ends[0]], link.get(ends[1])


def check_pieces(plan, demands, node_ranks):
    node_ranks = int(node_ranks)
    carried = collections.Counter()
    pieces = 0
    for demand in plan["plan"]:
        at = 0
        for piece in demand["pieces"]:
            check(piece["offset"] == at and piece["bytes"] > 0,
                  f"pieces of {demand} are not contiguous")
            at += piece["bytes"]
            pieces += 1
            for link in links_of(piece, demand["from"], demand["to"],
                                 node_ranks):
                carried[link] += piece["bytes"]
        check(at == demand["bytes"], f"not all of {demand} is planned")
    check(pieces == plan["num_pieces"] > 0, "wrong number of pieces")
    sums = {(d["from"], d["to"]): d["bytes"] for d in plan["plan"]}
    check(demands == "-" or sums == read_demands(demands), "the demands differ")
    check(sum(sums.values()) == plan["bytes"], "wrong sum of bytes")
    known = {link_key(link) for link in plan["links"]}
    for kind, a, b in carried:
        # hop() yields both kinds of link; the kind that does not exist is
        # absent from plan["links"].
        if kind == "gpu_link":
            check((kind, a, b) in known or {("switch_up", a, None),
                                            ("switch_down", b, None)} <= known,
                  f"there is no link from {a} to {b}")
        else:
            # A rank without a limit has no link for its reach.
            check((kind, a, b) in known or kind.startswith(("switch", "reach")),
                  f"there is no {kind} {a} {b}")
    most = 0
    for link in plan["links"]:
        got = carried[link_key(link)]
        check(link["bytes"] == got, f"{link}: its pieces total {got} bytes")
        if link["bytes_per_s"] > 0:
            most = max(most, got / link["bytes_per_s"])
            check(abs(link["load_s"] - got / link["bytes_per_s"]) <
                  1e-6 * most, f"{link}: wrong load")
        else:
            check(got == 0, f"{link} is dead but carries {got} bytes")
    check_congestion(plan, most)


def check_congestion(plan, most):
    check(abs(plan["congestion_s"] - most) < 1e-6 * most,
          f"congestion is {most}")
    before = max(link["load_before_s"] for link in plan["links"])
    check(abs(plan["congestion_before_s"] - before) < 1e-6 * before,
          f"congestion before is {before}")
    check_gap(plan, plan["wanted_gap"])


def check_gap(plan, gap):
    bound = plan["congestion_bound_s"]
    check(plan["wanted_gap"] == float(gap), "wrong gap")
    check(0 < bound <= plan["congestion_s"] <= bound * (1 + float(gap) + 1e-9),
          f"{plan['congestion_s']} is not within {gap} of {bound}")


def check_arms(plan, not_served):
    arms = plan["comparison"]
    check([arm["method"] for arm in arms] ==
          ["direct", "pairwise", "RailS", "SABRE", "FAST", "NIMBLE"],
          "the methods differ")
    refused = [arm for arm in arms if "not_served" in arm]
    check(len(refused) == int(not_served), f"not served: {refused}")
    bound = plan["congestion_bound_s"]
    for arm in arms:
        if arm in refused:
            check("time_s" not in arm, f"{arm} has a time")
            continue
        over = arm["time_s"] / bound - 1
        check(abs(arm["over_bound"] - over) < 1e-6, f"{arm}: not {over}")
        check((over < 1e-9) if arm["is_bound"] else (over > -1e-9),
              f"{arm} is on the wrong side of the bound")
        check((arm["relayed_bytes"] is None) == arm["is_bound"],
              f"{arm}: wrong number of relayed bytes")
    check(arms[0]["time_s"] == plan["congestion_before_s"],
          "direct is not the baseline")


def check_name(plan, name):
    check(plan["topology"] == name, f"the topology is not {name}")


def check_svg(path, cells):
    """Checks that each cell has a title with both times, and that the legend
    has eleven colours."""
    space = "{http://www.w3.org/2000/svg}"
    root = xml.etree.ElementTree.parse(path).getroot()
    check(root.tag == space + "svg", "not an SVG drawing")
    rects = root.findall(space + "rect")
    titled = [r for r in rects if r.find(space + "title") is not None]
    check(len(titled) == int(cells), f"{len(titled)} cells, not {cells}")
    check(len(rects) - len(titled) == 12, "wrong legend or background")
    for rect in titled:
        text = rect.find(space + "title").text
        check(text.count("before") == 1 and text.endswith("after"), text)
    texts = [t.text for t in root.findall(space + "text")]
    check(any("most loaded link: " in t for t in texts), "the drawing has no figures")
    for rect in rects:
        right = float(rect.get("x", 0)) + float(rect.get("width"))
        bottom = float(rect.get("y", 0)) + float(rect.get("height"))
        check(right <= float(root.get("width")) and
              bottom <= float(root.get("height")), "a rectangle is outside the drawing")


CHECKS = {"pieces": check_pieces, "gap": check_gap, "arms": check_arms, "name": check_name,
          "svg": check_svg}
what = sys.argv[2]
subject = sys.argv[3]
if what != "svg":
    with open(subject, encoding="utf-8") as file:
        subject = json.load(file)
CHECKS[what](subject, *sys.argv[4:])

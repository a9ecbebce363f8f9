"use strict";
/* mrail report: bandwidth over time, and the failover timeline. */

/* ---- bandwidth ---- */

/* The last interval of the grid may be shorter than the other intervals. */
function interval(index) {
    const grid = data.grid;
    const from = grid.begin_s + index * grid.width_s;
    return [from, Math.min(from + grid.width_s, grid.end_s)];
}

function ratesOf(points) {
    return points.map((bytes, i) => {
        const [from, to] = interval(i);
        return to > from ? bytes / (to - from) : 0;
    });
}

/* Returns the points of each rail, of all processes or of one. */
function railSeries(chosen) {
    return data.rails.map((rail, index) => {
        if (chosen === null) {
            return rail.points;
        }
        const own = data.processes[chosen].rails.find((r) => r.rail === index);
        return own ? own.points : [];
    });
}

/* Returns the path of the area between two step curves. */
function area(lower, upper, x, y) {
    let path = "", back = "";
    upper.forEach((value, i) => {
        const [from, to] = interval(i);
        path += (i === 0 ? "M" + x(from).toFixed(1) + " " : "V") +
            y(value).toFixed(1) + "H" + x(to).toFixed(1);
        back = "H" + x(from).toFixed(1) + back;
        back = "V" + y(lower[i]).toFixed(1) + back;
    });
    return path + back + "Z";
}

/* Returns the sums of the first series, of the first two, and so on. */
function stack(all) {
    let below = Array(data.grid.points).fill(0);
    return all.map((rates) => {
        below = below.map((value, i) => value + (rates[i] || 0));
        return below;
    });
}

function hover(host, drawing, x, top, bottom, all) {
    const grid = data.grid;
    const line = svg("line", {class: "cursor", y1: top, y2: bottom,
        visibility: "hidden"});
    const tip = el("div", {class: "tip", hidden: ""});
    drawing.append(line);
    host.append(tip);
    drawing.addEventListener("pointermove", (event) => {
        const box = drawing.getBoundingClientRect();
        const at = event.clientX - box.left;
        const time = grid.begin_s + (at - x(grid.begin_s)) /
            ((x(grid.end_s) - x(grid.begin_s)) || 1) *
            (grid.end_s - grid.begin_s);
        const i = Math.floor((time - grid.begin_s) / grid.width_s);
        if (i < 0 || i >= grid.points) {
            tip.hidden = true;
            return;
        }
        const [from, to] = interval(i);
        const place = x((from + to) / 2);
        fill(line, {x1: place, x2: place, visibility: "visible"}, []);
        tip.replaceChildren(
            el("div", {}, el("b", {}, from.toFixed(2) + " to " +
                to.toFixed(2) + " s")),
            ...all.map((rates, rail) => el("div", {},
                el("span", {style: "color:" + color(rail)},
                    data.rails[rail].name),
                el("span", {}, rate(rates[i] || 0)))),
            el("div", {}, el("span", {}, "all"), el("span", {},
                rate(sum(all.map((rates) => rates[i] || 0))))));
        tip.hidden = false;
        tip.style.left = place > box.width / 2 ? "auto" : place + 12 + "px";
        tip.style.right = place > box.width / 2 ?
            box.width - place + 12 + "px" : "auto";
    });
    drawing.addEventListener("pointerleave", () => {
        tip.hidden = true;
        line.setAttribute("visibility", "hidden");
    });
}

function drawBandwidth(host, chosen, width) {
    const grid = data.grid;
    const height = 272, left = 76, right = width - 12, top = 10, bottom = 250;
    const all = railSeries(chosen).map(ratesOf);
    const sums = stack(all);
    const high = Math.max(1, ...sums[sums.length - 1]);
    const scale = rateScale(high);
    const y = (value) => bottom - value / (high * 1.05) * (bottom - top);
    const drawing = svg("svg", {viewBox: "0 0 " + width + " " + height,
        role: "img", "aria-label": "bandwidth of each rail over time"});
    for (const value of ticks(0, high * 1.05, 5)) {
        drawing.append(
            svg("line", {class: "grid", x1: left, x2: right, y1: y(value),
                y2: y(value)}),
            svg("text", {x: left - 8, y: y(value) + 4, "text-anchor": "end"},
                scale(value)));
    }
    const x = timeAxis(drawing, grid.begin_s, grid.end_s, left, right, top,
        bottom);
    sums.forEach((upper, index) => {
        const lower = index === 0 ? upper.map(() => 0) : sums[index - 1];
        drawing.append(svg("path", {class: "curve", fill: color(index),
            stroke: color(index), d: area(lower, upper, x, y)}));
    });
    data.rails.forEach((rail, index) => {
        for (const [first, last] of rail.down) {
            const from = x(interval(first)[0]), to = x(interval(last)[1]);
            drawing.append(svg("rect", {x: from, y: bottom, fill: color(index),
                width: Math.max(to - from, 2), height: 5}));
        }
    });
    host.replaceChildren(drawing);
    hover(host, drawing, x, top, bottom, all);
}

function showBandwidth() {
    const host = section("bandwidth");
    const recording = data.recording;
    if (data.grid.points === 0) {
        host.append(note("The bandwidth over time is unknown: the " +
            (data.archive !== null ? "archive contains no chunk records." :
                "job had ended and left no chunk records.")));
        return;
    }
    host.append(note(recording.live ?
        "Bytes that the processes sent and fetched, stacked by rail, in " +
        "intervals of " + seconds(data.grid.width_s) + "." +
        (data.totals.bytes_before > 0 ? " The " +
            amount(data.totals.bytes_before) + " before the recording are " +
            "not in the chart." : "") :
        (data.archive !== null ? "The chart shows the last records of the " +
            "processes in the archive, or the bytes that they carried " +
            "between its two samples" :
            "The job had ended, so the chart shows the last records of its " +
            "processes") + ", in intervals of " + seconds(data.grid.width_s) +
        "." + (data.archive !== null && data.archive.hosts.length > 1 ?
            " Rails with the same name on several hosts are shown as one." :
            "")));
    const select = el("select", {"aria-label": "ranks"},
        el("option", {value: ""}, "all ranks"),
        ...data.processes.map((process, i) =>
            el("option", {value: i}, processName(process))));
    const anyDown = data.rails.some((rail) => rail.down.length > 0);
    host.append(el("div", {class: "legend"},
        ...data.rails.map((rail, i) => el("span", {},
            el("i", {style: "background:" + color(i)}), rail.name)),
        anyDown ? el("span", {}, "bar below the chart: the rail was down") :
            null, select));
    const figure = el("figure", {class: "chart"});
    host.append(figure);
    const again = responsive(figure, (width) => drawBandwidth(figure,
        select.value === "" ? null : +select.value, width));
    select.addEventListener("change", again);
}

/* ---- failures ---- */

/* Removes the lane number and the peer id from an event's text, so that the same
 * event on many lanes can be shown as one group. */
function generic(event) {
    return event.text
        .replace(/^path \d+ to peer [0-9a-f]+: /, "path ")
        .replace(/^[^:]+:\d+: lane \d+ to peer [0-9a-f]+ /, "lane ")
        .replace(/^lane \d+ to peer [0-9a-f]+: source port \d+ -> \d+/,
            "lane moved to another source port")
        .replace(/^peer [0-9a-f]+ is gone/, "a peer left")
        .replace("->", "\u2192");
}

/* Groups events that follow each other within 0.2 s. */
function groupsOf(events) {
    const open = new Map(), groups = [];
    for (const event of events) {
        const text = generic(event);
        const key = event.rail + " " + text;
        let group = open.get(key);
        if (!group || event.time_s - group.last > 0.2) {
            group = {first: event.time_s, text: text, rail: event.rail,
                recovery: event.recovery, kind: event.kind, count: 0,
                ranks: new Set()};
            open.set(key, group);
            groups.push(group);
        }
        group.last = event.time_s;
        group.ranks.add(event.rank);
        ++group.count;
    }
    return groups;
}

function railName(index) {
    return index === null ? "\u2013" : data.rails[index].name;
}

/* A suspect path may be up again soon, and peers leave at the end of a job. */
function tone(event) {
    return event.recovery ? "good" :
        event.kind === "lane" || /error|fatal/.test(event.text) ||
        /(->|\u2192) (retired|down)|(gone|left): (?!it has shut)/
            .test(event.text) ? "bad" : "warn";
}

function ranksText(ranks) {
    const list = [...ranks].sort((a, b) => a - b);
    return list.length > 6 ? list.length + " ranks" : list.join(", ");
}

function drawTimeline(host, width) {
    const rows = data.rails.map((rail, i) => i);
    if (data.events.some((event) => event.rail === null)) {
        rows.push(null);
    }
    const times = data.events.map((event) => event.time_s);
    const from = Math.min(data.grid.begin_s, ...times.slice(0, 1));
    const to = Math.max(data.grid.end_s, ...times.slice(-1));
    const left = 76, right = width - 12, step = 30, bottom = rows.length * step;
    const drawing = svg("svg", {viewBox: "0 0 " + width + " " + (bottom + 26),
        role: "img", "aria-label": "events of each rail over time"});
    const x = timeAxis(drawing, from, to, left, right, 0, bottom);
    rows.forEach((rail, row) => {
        const y = row * step + step / 2;
        drawing.append(
            svg("text", {class: "row", x: left - 8, y: y + 4,
                "text-anchor": "end"}, rail === null ? "others" :
                data.rails[rail].name),
            svg("line", {class: "axis", x1: left, x2: right, y1: y, y2: y}));
        for (const [first, last] of rail === null ? [] : data.rails[rail].down) {
            const begin = x(interval(first)[0]), end = x(interval(last)[1]);
            drawing.append(svg("rect", {x: begin, y: y - 6, height: 12, rx: 2,
                width: Math.max(end - begin, 2), fill: "var(--bad)",
                "fill-opacity": .3}));
        }
    });
    const seen = new Set();
    for (const event of data.events) {
        const place = Math.round(x(event.time_s)), row = rows.indexOf(event.rail);
        const key = place + " " + row + " " + tone(event);
        if (!seen.has(key)) {
            seen.add(key);
            drawing.append(svg("circle", {cx: place, cy: row * step + step / 2,
                r: 4, fill: "var(--" + tone(event) + ")"},
                svg("title", {}, event.time_s.toFixed(3) + " s: " +
                    event.text)));
        }
    }
    host.replaceChildren(drawing);
}

function groupRow(group) {
    return el("tr", {},
        el("td", {}, group.first.toFixed(3) + " s"),
        el("td", {class: "text"}, railName(group.rail)),
        el("td", {class: "text long " + tone(group)}, group.text),
        el("td", {}, group.count.toLocaleString("en")),
        el("td", {}, ranksText(group.ranks)));
}

function eventTable() {
    return table(heads("Time", "Rank", "Event"), data.events.map((event) =>
        el("tr", {},
            el("td", {}, event.time_s.toFixed(6) + " s"),
            el("td", {}, event.rank),
            el("td", {class: "text long"}, event.text +
                (event.peer_rank === null ? "" : " \u2013 peer is rank " +
                    event.peer_rank)))), "wide");
}

function showFaults() {
    const host = section("faults"), recording = data.recording;
    if (data.events.length === 0) {
        host.append(note("The processes reported no event of a port, path, " +
            "lane or peer."));
        return;
    }
    const figure = el("figure", {class: "chart"});
    host.append(el("div", {class: "legend"},
        ...[["bad", "failure"], ["warn", "change"], ["good", "recovery"]]
            .map(([className, text]) => el("span", {}, el("i",
                {class: "dot", style: "background:var(--" + className + ")"}),
            text)),
        data.rails.some((rail) => rail.down.length > 0) ? el("span", {},
            el("i", {style: "background:var(--bad);opacity:.3"}),
            "the rail was down") : null), figure);
    responsive(figure, (width) => drawTimeline(figure, width));
    const groups = groupsOf(data.events);
    const first = heads("Time", "Rail", "Event", "Count", "Ranks");
    first[1].className = first[2].className = "text";
    host.append(table(first, groups.slice(0, MAX_ROWS).map(groupRow), "wide"));
    if (groups.length > MAX_ROWS) {
        host.append(note("There are " + (groups.length - MAX_ROWS) +
            " further rows; the list below has all events."));
    }
    if (recording.events_left_out + recording.events_missed > 0) {
        host.append(note(count(recording.events_left_out +
            recording.events_missed, "event is", "events are") +
            " not in this report, because there was no room, or because they " +
            "were overwritten before they were read."));
    }
    host.append(lazy("All " + count(data.events.length, "event", "events"),
        eventTable));
}

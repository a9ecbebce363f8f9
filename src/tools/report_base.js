"use strict";
/* mrail report: elements, numbers and axes. Texts from the job are set as text,
 * never as HTML. */
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const MAX_ROWS = 200;

/* ---- elements ---- */

function fill(node, attributes, children) {
    for (const name in attributes || {}) {
        node.setAttribute(name, attributes[name]);
    }
    for (const child of children) {
        if (child !== null) {
            node.append(child);
        }
    }
    return node;
}

function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
}

function section(id) {
    return document.getElementById(id);
}

function note(text) {
    return el("p", {class: "note"}, text);
}

function table(heads, rows, className) {
    return el("div", {class: "scroll"},
        el("table", {class: className || ""},
            el("thead", {}, el("tr", {}, ...heads)),
            el("tbody", {}, ...rows)));
}

function heads(...names) {
    return names.map((name) => el("th", {scope: "col"}, name));
}

function lazy(title, make) {
    const details = el("details", {}, el("summary", {}, title));
    details.addEventListener("toggle", () => {
        if (details.open && details.childNodes.length === 1) {
            details.append(make());
        }
    });
    return details;
}

/* ---- numbers ---- */

function amount(value, per) {
    const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let unit = 0;
    while (value >= 999.5 && unit + 1 < units.length) {
        value /= 1000;
        ++unit;
    }
    const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return value.toFixed(digits) + " " + units[unit] + (per || "");
}

function rate(value) {
    return amount(value, "/s");
}

/* Returns a function that shows rates up to `high` in one unit. */
function rateScale(high) {
    const units = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
    const unit = Math.min(Math.max(Math.floor(Math.log10(high || 1) / 3), 0),
        units.length - 1);
    return (value) => +(value / Math.pow(1000, unit)).toPrecision(4) + " " +
        units[unit];
}

function seconds(value) {
    if (value >= 7200) {
        return (value / 3600).toFixed(1) + " h";
    }
    if (value >= 600) {
        return (value / 60).toFixed(1) + " min";
    }
    return value.toFixed(value < 10 ? 2 : 1) + " s";
}

function count(value, one, many) {
    return value.toLocaleString("en") + " " + (value === 1 ? one : many);
}

function sum(values) {
    return values.reduce((a, b) => a + b, 0);
}

/* Names the host as well if the archive has several. */
function processName(process) {
    const name = process.rank >= 0 ? "rank " + process.rank :
        "pid " + process.pid;
    return data.archive !== null && data.archive.hosts.length > 1 ?
        name + " on " + process.host : name;
}

function utc(epoch_s, length) {
    return new Date(epoch_s * 1000).toISOString().slice(0, length)
        .replace("T", " ").replace("Z", "") + " UTC";
}

function color(rail) {
    return "var(--r" + rail % 8 + ")";
}

/* Returns round values from 0 or `low` to `high`. */
function ticks(low, high, wanted) {
    const raw = Math.max((high - low) / wanted, 1e-9);
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9;
        ++i) {
        found.push(i * step);
    }
    return found;
}

/* ---- charts ---- */

/* Calls draw(width) now, and again when the width of the page changes. */
function responsive(host, draw) {
    let last = 0;
    const redraw = () => {
        const width = Math.max(Math.round(host.clientWidth), 280);
        if (width !== last) {
            last = width;
            draw(width);
        }
    };
    redraw();
    if (window.ResizeObserver) {
        new ResizeObserver(redraw).observe(host);
    }
    return () => { last = 0; redraw(); };
}

function timeAxis(drawing, from, to, left, right, top, bottom) {
    const x = (time) => left + (time - from) / (to - from || 1) * (right - left);
    for (const time of ticks(from, to, Math.max((right - left) / 110, 2))) {
        drawing.append(
            svg("line", {class: "grid", x1: x(time), x2: x(time), y1: top,
                y2: bottom}),
            svg("text", {x: x(time), y: bottom + 17, "text-anchor": "middle"},
                +time.toPrecision(6) + " s"));
    }
    drawing.append(svg("line", {class: "axis", x1: left, x2: right, y1: bottom,
        y2: bottom}));
    return x;
}

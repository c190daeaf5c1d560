#!/usr/bin/env python3
"""Looks at a page in headless Chromium: look.py PAGE.html FOLDER [CHROMIUM].

Writes wide.png (1,200 px), narrow.png (400 px), dark.png and print.pdf into FOLDER, and prints one JSON object:
faults of the page as a list of {where, what}, and what was seen of every figure. Standard library only: the browser is
spoken to over a pipe (the DevTools protocol on its descriptors 3 and 4, messages ended by a zero byte).
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

WIDE, NARROW, HEIGHT = 1200, 400, 900
ANSWER_S = 60  # a busy machine takes some seconds to start a browser

# Runs in the page: what a reader would stumble over. Texts of a drawing are compared by their boxes on the screen.
SEEN = r"""
(() => {
  const faults = [];
  const add = (what) => { if (faults.length < 60) faults.push(what); };
  const words = (node) => node.textContent.trim().slice(0, 60);
  const colour = (text) => {
    const parts = (text.match(/[\d.]+/g) || []).map(Number);
    return parts.length >= 3 ? {r: parts[0], g: parts[1], b: parts[2], a: parts.length > 3 ? parts[3] : 1} : null;
  };
  const channel = (value) => { const c = value / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const luminance = (c) => 0.2126 * channel(c.r) + 0.7152 * channel(c.g) + 0.0722 * channel(c.b);
  // WCAG 2.2, 1.4.3.
  const contrast = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const backdrop = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = colour(getComputedStyle(e).backgroundColor);
      if (c && c.a > 0.5) return c;
    }
    return colour(getComputedStyle(document.documentElement).getPropertyValue('--paper')) ||
           (matchMedia('(prefers-color-scheme: dark)').matches ? {r: 0, g: 0, b: 0} : {r: 255, g: 255, b: 255});
  };
  if (document.documentElement.scrollWidth > innerWidth + 1)
    add(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`);

  const figures = [];
  for (const figure of document.querySelectorAll('figure')) {
    const svg = figure.querySelector('svg');
    const caption = figure.querySelector('figcaption');
    const name = svg ? (svg.querySelector('title') || {}).id || '' : words(figure);
    if (!svg) { figures.push({name, drawn: false}); continue; }
    const frame = svg.getBoundingClientRect();
    const label = (svg.getAttribute('aria-labelledby') || '').split(' ')
        .map((id) => (document.getElementById(id) || {textContent: ''}).textContent).join(' ');
    const texts = [...svg.querySelectorAll('text')].filter((t) => t.textContent.trim());
    figures.push({name, drawn: true, texts: texts.length, label: label.length, caption: caption ? words(caption) : '',
                  width: Math.round(frame.width), height: Math.round(frame.height)});
    if (!texts.length) add(`${name}: no text in the drawing`);
    if (label.trim().length < 10) add(`${name}: nothing said for those who do not see it`);
    if (!caption || !words(caption)) add(`${name}: no caption`);
    if (frame.width < 100 || frame.height < 50) add(`${name}: is drawn ${frame.width} x ${frame.height}`);
    const scale = svg.viewBox.baseVal.width ? frame.width / svg.viewBox.baseVal.width : 1;
    const paper = svg.querySelector('.tare-paper');
    const ground = (paper && colour(getComputedStyle(paper).fill)) || backdrop(svg);
    const boxes = texts.map((t) => ({t, b: t.getBoundingClientRect()}));
    for (const {t, b} of boxes) {
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
        add(`${name}: '${words(t)}' is cut off by the edge`);
      const size = parseFloat(getComputedStyle(t).fontSize) * scale;
      if (size < 8.5) add(`${name}: '${words(t)}' is ${size.toFixed(1)} px high`);
      const paint = colour(getComputedStyle(t.querySelector('tspan') || t).fill);  // "none": an empty label's frame
      const ratio = paint ? contrast(paint, painted(t, b, false)) : Infinity;
      if (painted(t, b, true)) add(`${name}: '${words(t)}' is painted over`);
      if (ratio < 3) add(`${name}: '${words(t)}' has a contrast of ${ratio.toFixed(1)}`);
    }
    for (let i = 0; i < boxes.length; ++i)
      for (let j = i + 1; j < boxes.length; ++j) {
        const a = boxes[i].b, c = boxes[j].b;
        const across = Math.min(a.right, c.right) - Math.max(a.left, c.left);
        const down = Math.min(a.bottom, c.bottom) - Math.max(a.top, c.top);
        const low = Math.min(a.height, c.height);
        if (across > 2 && down > 0.35 * low) add(`${name}: '${words(boxes[i].t)}' lies over '${words(boxes[j].t)}'`);
      }
    // The colour of the last shape that was painted at the middle of a text: before it, a cell, a bar, else the paper;
    // or after it, which hides it.
    function painted(t, b, after) {
      const x = (b.left + b.right) / 2, y = (b.top + b.bottom) / 2;
      let last = after ? null : ground;
      for (const shape of svg.querySelectorAll('rect, path, polygon')) {
        const follows = Boolean(t.compareDocumentPosition(shape) & Node.DOCUMENT_POSITION_FOLLOWING);
        if (shape === paper || follows !== after) continue;
        const s = shape.getBoundingClientRect();
        const f = colour(getComputedStyle(shape).fill);
        const seen = f && f.a > 0.5 && getComputedStyle(shape).fillOpacity > 0.5;
        if (seen && s.left <= x && x <= s.right && s.top <= y && y <= s.bottom) last = f;
      }
      return last;
    }
  }
  // Tables, captions and running text.
  for (const element of document.querySelectorAll('p, li, td, th, h1, h2, figcaption, caption, summary, code')) {
    if (!words(element) || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ratio = contrast(colour(style.color), backdrop(element));
    if (ratio < 4.5) add(`'${words(element)}' has a contrast of ${ratio.toFixed(1)}`);
    if (parseFloat(style.fontSize) < 10) add(`'${words(element)}' is ${style.fontSize} high`);
  }
  for (const table of document.querySelectorAll('table'))
    if (!table.caption || !words(table.caption)) add('a table has no caption');
  return JSON.stringify({title: document.title, faults, figures, tables: document.querySelectorAll('table').length,
                         ground: luminance(backdrop(document.body))});
})()
"""


class Browser:
    """One headless Chromium, spoken to over a pipe."""

    def __init__(self, program, profile):
        read_end, to_browser = os.pipe()
        from_browser, write_end = os.pipe()
        self.to_browser, self.from_browser = to_browser, from_browser
        arguments = [program, "--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu",
                     "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-background-networking",
                     "--disable-component-update", "--disable-extensions", "--user-data-dir=" + profile, "about:blank"]

        # By way of high numbers: 3 or 4 may be one of the pipes' own.
        line = 'exec 3<&"$TARE_IN" 4>&"$TARE_OUT"; exec "$@"'
        self.ends = [fd_above(read_end), fd_above(write_end)]
        environment = dict(os.environ, TARE_IN=str(self.ends[0]), TARE_OUT=str(self.ends[1]))
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["bash", "-c", line, "bash"] + arguments, pass_fds=self.ends, env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors)
        for end in [read_end, write_end] + self.ends:
            os.close(end)
        self.number, self.buffer, self.events, self.session = 0, b"", [], None

    def message(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.from_browser], [], [], left)[0]:
                raise RuntimeError("the browser does not answer")
            piece = os.read(self.from_browser, 1 << 20)
            if not piece:
                self.errors.seek(0)
                raise RuntimeError("the browser ended: " + self.errors.read().decode(errors="replace")[-600:])
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + ANSWER_S
        while True:
            answer = self.message(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        until = time.monotonic() + ANSWER_S
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message(until))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            self.process.kill()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def fd_above(number):
    """A copy of a descriptor that is out of the way of 3 and 4."""
    return fcntl.fcntl(number, fcntl.F_DUPFD, 20)


def faults_of(events, page):
    """Errors on the console, exceptions, requests that failed or that a page of one file should not make."""
    faults = []
    for event in events:
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert", "warning"):
            faults.append("console: " + " ".join(str(a.get("value", "")) for a in about["args"]))
        elif method == "Runtime.exceptionThrown":
            faults.append("exception: " + about["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            faults.append("log: " + about["entry"]["text"])
        elif method == "Network.loadingFailed":
            faults.append("a request failed: " + about["errorText"])
        elif method == "Network.requestWillBeSent":
            url = about["request"]["url"]
            if url.split("#")[0] != page and not url.startswith("data:"):
                faults.append("a request leaves the page: " + url)
    return faults


def look(page, folder, program):
    url = "file://" + os.path.abspath(page)
    os.makedirs(folder, exist_ok=True)
    profile = tempfile.mkdtemp(prefix="tare-browser-")
    browser = Browser(program, profile)
    result = {"faults": [], "views": {}}
    try:
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(domain + ".enable")
        browser.events.clear()

        def size(width):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1,
                         mobile=False)

        def save(name, data):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(base64.b64decode(data))

        def view(name, width, scheme):
            size(width)
            browser.call("Emulation.setEmulatedMedia", media="screen",
                         features=[{"name": "prefers-color-scheme", "value": scheme}])
            seen = browser.call("Runtime.evaluate", expression=SEEN, returnByValue=True)
            if "exceptionDetails" in seen:
                raise RuntimeError("the look itself failed: " + json.dumps(seen["exceptionDetails"])[:600])
            seen = json.loads(seen["result"]["value"])
            result["faults"] += [{"where": name, "what": what} for what in seen.pop("faults")]
            result["views"][name] = seen
            save(name + ".png", browser.call("Page.captureScreenshot", captureBeyondViewport=True)["data"])

        size(WIDE)
        browser.call("Page.navigate", url=url)
        browser.wait_for("Page.loadEventFired")
        view("wide", WIDE, "light")
        view("narrow", NARROW, "light")
        view("dark", WIDE, "dark")
        browser.call("Emulation.setEmulatedMedia", media="", features=[])
        browser.call("Emulation.clearDeviceMetricsOverride")
        save("print.pdf", browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"])
        result["faults"] += [{"where": "loading", "what": what} for what in faults_of(browser.events, url)]
    finally:
        browser.close()
        shutil.rmtree(profile, ignore_errors=True)
    return result


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: look.py PAGE.html FOLDER [CHROMIUM]")
    program = sys.argv[3] if len(sys.argv) == 4 else shutil.which("chromium")
    if not program:
        sys.exit("chromium is not there")
    print(json.dumps(look(sys.argv[1], sys.argv[2], program), indent=1))


if __name__ == "__main__":
    main()

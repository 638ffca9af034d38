// Joins the emulator in this page with the shell behind the WebSocket, and connects again when the connection is lost.
"use strict";

(() => {
  const status = document.getElementById("status");
  const terminal = new Terminal({
    cursorBlink: true,
    fontSize: 14,
    scrollback: 5000,
    theme: {
      background: "#ffffff",
      foreground: "#1f2328",
      cursor: "#1f2328",
      cursorAccent: "#ffffff",
      selectionBackground: "#b6d6fd",
      blue: "#0550ae",
      brightBlue: "#0969da",
      white: "#6e7781",
      brightWhite: "#57606a",
      yellow: "#7d5b00",
      brightYellow: "#946c00",
      green: "#116329",
      brightGreen: "#1a7f37",
      cyan: "#1b6b72",
      brightCyan: "#3192aa",
    },
  });
  const fit = new FitAddon.FitAddon();
  terminal.loadAddon(fit);
  terminal.open(document.getElementById("terminal"));
  fit.fit();

  const inputMaxLength = 16 * 1024;
  const retryMs = [500, 1000, 2000, 5000, 10000];
  let socket;
  let failures = 0;
  let hasEnded = false;

  function say(text) {
    status.textContent = text;
    status.hidden = text === "";
    fit.fit();
  }

  function send(message) {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  }

  function connect() {
    const url = new URL("terminal/ws", location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    // What the page was opened with goes on: sessionId, shell, workingDir.
    url.search = location.search;
    // Where no cookie comes with the connection, the page has what opens it.
    const token = document.querySelector('meta[name="preview-token"]')?.content;
    if (token) url.searchParams.set("bl_preview_token", token);
    url.searchParams.set("cols", String(terminal.cols));
    url.searchParams.set("rows", String(terminal.rows));
    socket = new WebSocket(url);
    socket.onopen = () => {
      failures = 0;
      say("");
      // What comes first is what was shown before.
      terminal.reset();
      terminal.focus();
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.type === "output") terminal.write(message.data);
      if (message.type !== "error") return;
      hasEnded = message.exitCode !== undefined;
      say(hasEnded ? `${message.data} Press Enter for a new one.` : message.data);
    };
    socket.onclose = () => {
      if (hasEnded) return;
      const delayMs = retryMs[Math.min(failures, retryMs.length - 1)];
      failures += 1;
      say("The connection is lost. Connecting again…");
      setTimeout(connect, delayMs);
    };
  }

  terminal.onData((data) => {
    if (hasEnded) {
      if (data !== "\r") return;
      hasEnded = false;
      return connect();
    }
    let at = 0;
    while (at < data.length) {
      let end = Math.min(at + inputMaxLength, data.length);
      // A character of two units stays whole.
      if (end < data.length && /[\uD800-\uDBFF]/.test(data[end - 1])) end += 1;
      send({ type: "input", data: data.slice(at, end) });
      at = end;
    }
  });
  terminal.onBinary((data) => send({ type: "input", data }));
  terminal.onResize(({ cols, rows }) => send({ type: "resize", cols, rows }));
  new ResizeObserver(() => fit.fit()).observe(document.getElementById("terminal"));

  const shell = new URLSearchParams(location.search).get("shell");
  if (shell !== null && document.querySelector('meta[name="opened-by"]')) {
    hasEnded = true;
    say(`The link that led here wants to run ${shell}. Press Enter to let it.`);
    terminal.focus();
  } else connect();
})();

/*
 * The page of GET /events/client, which lists messages of the channel. It uses no library, so that it works offline and
 * under the strict Content-Security-Policy. Its script is a separate file, because inline ones are blocked.
 */

/** Returns the page. `script` is the URL of CHANNEL_SCRIPT. */
export function channelPage(script: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Faregate events</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
</head>
<body>
<h1>Messages of the pricing channel</h1>
<p id="state" role="status">Connecting …</p>
<ol id="messages"></ol>
<noscript><p>This page needs JavaScript to open the channel.</p></noscript>
<script src="${script}" defer></script>
</body>
</html>
`;
}

/** Implements enough of Engine.IO 4 and Socket.IO 5 to join /pricings and list its messages. */
export const CHANNEL_SCRIPT = `"use strict";
(() => {
  const state = document.getElementById("state");
  const list = document.getElementById("messages");
  const prefix = location.pathname.split("/api/v1/")[0];
  const address = location.protocol.replace("http", "ws") + "//" + location.host + prefix + "/events/?EIO=4&transport=websocket";
  const MESSAGE = "42/pricings,";
  const open = () => {
    const socket = new WebSocket(address);
    socket.onmessage = ({ data }) => {
      if (data[0] === "0") socket.send("40/pricings,");
      else if (data === "2") socket.send("3");
      else if (data.startsWith("40/pricings,")) state.textContent = "Connected to " + address;
      else if (data.startsWith(MESSAGE)) {
        const item = document.createElement("li");
        item.textContent = new Date().toISOString() + " " + JSON.stringify(JSON.parse(data.slice(MESSAGE.length))[1]);
        list.prepend(item);
      }
    };
    socket.onclose = () => {
      state.textContent = "No connection to " + address + ". Trying again …";
      setTimeout(open, 2000);
    };
  };
  open();
})();
`;

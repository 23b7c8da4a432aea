// Keys go to the screen from its first picture on: textual-serve's script (1.1.3) waits for a click, and throws where its
// terminal has the focus before its WebSocket is open.
addEventListener("load", () => {
  const observer = new MutationObserver(() => {
    if (document.body.classList.contains("-first-byte")) {
      observer.disconnect();
      document.querySelector(".xterm-helper-textarea").focus();
    }
  });
  observer.observe(document.body, { attributeFilter: ["class"] });
});

// A line that hangs, as behind a closed laptop, ends no WebSocket for hours: the picture would look like the present.
const ASK_MS = 2000;
const SILENT = 4;
class WatchedSocket extends WebSocket {
  constructor(...address) {
    super(...address);
    let unanswered = 0;
    const silent = (is) => document.body.classList.toggle("-silent", is);
    const asking = setInterval(() => {
      if (this.readyState === WebSocket.OPEN) {
        silent(++unanswered > SILENT);
        if (!this.bufferedAmount) this.send(JSON.stringify(["ping", "line"]));
      }
    }, ASK_MS);
    this.addEventListener("message", (event) => {
      unanswered = 0;
      silent(false);
      // textual-serve's script would write it to the console each time.
      if (event.data === '["pong", "line"]') event.stopImmediatePropagation();
    });
    this.addEventListener("close", () => {
      clearInterval(asking);
      silent(false);
    });
  }
}
window.WebSocket = WatchedSocket;

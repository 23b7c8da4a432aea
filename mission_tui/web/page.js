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

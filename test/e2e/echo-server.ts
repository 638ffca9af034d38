// A server to be run inside a sandbox, in Python: answers with the path, takes for ever at /slow, and echoes frames of a WebSocket.
export const echoServer = `
import base64, hashlib, http.server, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.headers.get("upgrade"):
            return self.echo_frames()
        if self.path == "/slow":
            threading.Event().wait()
        body = self.path.encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def echo_frames(self):
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("connection", "upgrade")
        self.send_header("upgrade", "websocket")
        self.send_header("set-cookie", "planted=1; Domain=localhost; Path=/")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                return
            mask, data = self.rfile.read(4), self.rfile.read(head[1] & 127)
            self.wfile.write(bytes([head[0], len(data)]) + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)))

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`;

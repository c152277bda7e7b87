// Package http1 implements the part of HTTP/1.1 that a load generator needs,
// without I/O and without allocation per request. Request bytes are built once
// ([Template]). An incremental response parser ([Parser]) keeps the status and
// discards the body. The caller reads into its own buffer and feeds what it
// has:
//
//	socket -> buffer -> Parser.Feed -> consumed, done
//
// Whatever the parser accepts, net/http accepts with the same status, body
// length and closing; a fuzz test compares them. The only exception is transfer
// encodings before chunked, or in its place: they are legal, but net/http
// rejects them.
package http1

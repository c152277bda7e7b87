// Package http1 is the part of HTTP/1.1 that a load generator needs, without
// I/O and without allocation for each request: request bytes made once
// ([Template]) and an incremental parser of responses ([Parser]) that keeps
// the status and throws the body away. The caller reads into a buffer of its
// own and feeds what it has:
//
//	socket -> buffer -> Parser.Feed -> consumed, done
//
// What the parser accepts, net/http accepts with the same status, body
// length and closing; a fuzz test compares them. Only transfer encodings
// before chunked, or in its place, are legal and refused by net/http.
package http1

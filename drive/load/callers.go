package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// newCallers returns one caller for each connection.
func newCallers(spec *Spec, t target, addr *net.TCPAddr) ([]caller, error) {
	d := &dialer{addr: addr.String()}
	if t.tls {
		config, err := spec.tlsConfig(t)
		if err != nil {
			return nil, err
		}
		d.tls = config
	}
	speak := dialects[t.protocol.Name]
	if speak.wire != nil {
		speak.caller = overWire(speak.wire(spec, t))
	}
	callers := make([]caller, spec.Connections)
	for i := range callers {
		callers[i] = speak.caller(spec, t, d)
	}
	return callers, nil
}

// tlsConfig returns the crypto/tls configuration of the Spec.
func (s *Spec) tlsConfig(t target) (*tls.Config, error) {
	config := &tls.Config{ServerName: t.host}
	if t.protocol.ALPN != "" {
		config.NextProtos = []string{t.protocol.ALPN}
	}
	if s.TLS == nil {
		return config, nil
	}
	if s.TLS.ServerName != "" {
		config.ServerName = s.TLS.ServerName
	}
	config.InsecureSkipVerify = s.TLS.InsecureSkipVerify
	if s.TLS.CAPEM != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(s.TLS.CAPEM)) {
			return nil, fmt.Errorf("tls: ca_pem holds no certificate")
		}
	}
	if s.TLS.CertPEM != "" {
		pair, err := tls.X509KeyPair([]byte(s.TLS.CertPEM), []byte(s.TLS.KeyPEM))
		if err != nil {
			return nil, fmt.Errorf("tls: client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// dialer connects to the address that a run uses.
type dialer struct {
	addr string
	tls  *tls.Config
}

// tcp connects without TLS.
func (d *dialer) tcp(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(ctx, "tcp", d.addr)
	if err != nil {
		return nil, &kindError{failConnect, err}
	}
	return &watched{Conn: conn}, nil
}

// dial connects, with TLS if the target has it.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.tcp(ctx)
	if err != nil || d.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		err = cmp.Or(ctx.Err(), err) // err is that of a context below ours, which does not name the deadline
		return nil, &kindError{failTLS, fmt.Errorf("tls handshake with %s: %w", d.addr, err)}
	}
	return secure, nil
}

// kindError is an error with a known kind of failure.
type kindError struct {
	kind failure
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

// expired reports whether a call's time is over. The context's own timer may not have noticed yet.
func expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// kindOf returns the kind of failure of err.
func kindOf(ctx context.Context, err error) failure {
	if expired(ctx) || errors.Is(err, context.DeadlineExceeded) {
		return failTimeout
	}
	var k *kindError
	if errors.As(err, &k) {
		return k.kind
	}
	if isEOF(err) {
		return failEOF
	}
	return classify(err)
}

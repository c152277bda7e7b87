package profile

import (
	"strings"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

// Groups of cost centres.
const (
	GroupHTTPFilter     = "HTTP filter"
	GroupNetworkFilter  = "network filter"
	GroupListenerFilter = "listener filter"
	GroupCodec          = "codec"
	GroupTLS            = "TLS"
	GroupAccessLog      = "access log"
	GroupTracing        = "tracing"
	GroupStats          = "statistics"
	GroupWasm           = "Wasm"
	GroupRouting        = "routing and upstreams"
	GroupBuffers        = "connections and buffers"
	GroupEventLoop      = "event loop"
	GroupConfig         = "configuration"
	GroupRuntime        = "language runtime"
	GroupPush           = "making and sending configuration"
	GroupKernel         = "kernel"
	GroupOther          = "other"
	GroupUnnamed        = "no names"
)

// centre identifies a cost centre.
type centre struct{ group, name string }

// rule assigns functions to a cost centre. The innermost frame with a rule
// decides: what a filter calls in libraries counts as the filter's, and what it
// calls in another filter as the other one's.
type rule struct {
	// Exactly one of these selects functions: prefix, part and match by name,
	// module by part of the module's path.
	prefix, part, module string
	match                *lazyregexp.Regexp
	kernel               bool
	to                   centre
	// name derives the centre's name from the first group of match.
	name func(string) string
}

// rules are in order of precedence: the first match counts. Symbols are those
// of Envoy (source/extensions, source/common), Istio's proxy
// (source/extensions), BoringSSL and OpenSSL, nghttp2, V8, the crates of
// ztunnel and linkerd2-proxy, and Go's packages.
var rules = []rule{
	// Envoy. Wasm comes first because its filters are in the namespace of
	// filters.
	{match: lazyregexp.New(`proxy_wasm::null_plugin::(?:Plugin::)?(\w+)::`),
		to: centre{group: GroupWasm}, name: func(s string) string { return s + " (null runtime)" }},
	{part: "proxy_wasm::", to: centre{GroupWasm, "host"}},
	{part: "Envoy::Extensions::Common::Wasm::", to: centre{GroupWasm, "host"}},
	{part: "HttpFilters::Wasm::", to: centre{GroupWasm, "host"}},
	{prefix: "v8::", to: centre{GroupWasm, "V8"}},
	{prefix: "Builtins_", to: centre{GroupWasm, "V8"}},
	{prefix: "Function:wasm-function", to: centre{GroupWasm, "module"}},
	{prefix: "JS:*wasm-function", to: centre{GroupWasm, "module"}},
	{prefix: "wasm-function", to: centre{GroupWasm, "module"}},

	{match: lazyregexp.New(`Envoy::Extensions::HttpFilters::(\w+)::`),
		to: centre{group: GroupHTTPFilter}, name: httpFilterName},
	{match: lazyregexp.New(`^(?:\S+ )?Envoy::Router::(?:Filter|UpstreamRequest|RouterFilter|ProdFilter)\b`),
		to: centre{GroupHTTPFilter, "envoy.filters.http.router"}},
	{match: lazyregexp.New(`Envoy::Http::Alpn::`), to: centre{GroupHTTPFilter, "istio.alpn"}},
	{match: lazyregexp.New(`Envoy::Extensions::NetworkFilters::(\w+)::`),
		to: centre{group: GroupNetworkFilter}, name: networkFilterName},
	{part: "Envoy::Tcp::MetadataExchange::", to: centre{GroupNetworkFilter, "istio.metadata_exchange"}},
	{part: "Envoy::TcpProxy::", to: centre{GroupNetworkFilter, "envoy.filters.network.tcp_proxy"}},
	{match: lazyregexp.New(`Envoy::Extensions::ListenerFilters::(\w+)::`),
		to: centre{group: GroupListenerFilter}, name: func(s string) string { return "envoy.filters.listener." + snake(s) }},
	{match: lazyregexp.New(`Envoy::Extensions::AccessLoggers::|Envoy::AccessLog::|Envoy::Formatter::|` +
		`Envoy::Extensions::Formatter::`),
		to: centre{GroupAccessLog, "access log"}},
	{match: lazyregexp.New(`opentelemetry::proto::(?:collector::)?logs`), to: centre{GroupAccessLog, "access log"}},
	{match: lazyregexp.New(`Envoy::Tracing::|Envoy::Extensions::Tracers::|opentelemetry::proto::(?:collector::)?trace|` +
		`^zipkin`),
		to: centre{GroupTracing, "tracing"}},
	{part: "TransportSockets::Tls::", to: centre{GroupTLS, "TLS"}},
	{match: lazyregexp.New(`^(?:SSL_|ssl_|bssl::|tls_|tls13_|EVP_|evp_|CRYPTO_|ECDSA_|EC_|ec_|ecp_|RSA_|rsa_|BN_|bn_|` +
		`X509_|x509_|aes_|AES_|aesni_|gcm_|ossl_|sha\d+_|SHA\d+_|x25519_|chacha20_|poly1305_|fiat_|` +
		`aead_)`),
		to: centre{GroupTLS, "TLS"}},
	{module: "libssl.", to: centre{GroupTLS, "TLS"}},
	{module: "libcrypto.", to: centre{GroupTLS, "TLS"}},
	{part: "Envoy::Http::Http1::", to: centre{GroupCodec, "HTTP/1"}},
	{match: lazyregexp.New(`^(?:http_parser_|llhttp_|quiche::Balsa)`), to: centre{GroupCodec, "HTTP/1"}},
	{part: "Envoy::Http::Http2::", to: centre{GroupCodec, "HTTP/2"}},
	{match: lazyregexp.New(`^(?:nghttp2_|http2::|hd_inflate)|http2::adapter::|http2::Hpack`),
		to: centre{GroupCodec, "HTTP/2"}},
	{match: lazyregexp.New(`Envoy::Quic::|^quic::`), to: centre{GroupCodec, "HTTP/3"}},
	{match: lazyregexp.New(`Envoy::Http::(?:HeaderMapImpl|HeaderString|HeaderUtility)`),
		to: centre{GroupCodec, "headers"}},
	{match: lazyregexp.New(`Envoy::Http::(?:ConnectionManager|FilterManager|ActiveStream|DownstreamFilterManager|` +
		`CodecClient)`),
		to: centre{GroupNetworkFilter, "envoy.filters.network.http_connection_manager"}},
	{match: lazyregexp.New(`Envoy::(?:Router|Upstream|ConnectionPool|Http::ConnPool|Http::HttpConnPool)`),
		to: centre{GroupRouting, "routing and upstreams"}},
	{part: "Envoy::Stats::", to: centre{GroupStats, "statistics"}},
	{match: lazyregexp.New(`Envoy::(?:Network|Buffer|Api)::`), to: centre{GroupBuffers, "connections and buffers"}},
	{match: lazyregexp.New(`Envoy::Event::|^event_base_|^event_process_|^epoll_dispatch|^evmap_|^event_(?:add|del|` +
		`active|callback)`),
		to: centre{GroupEventLoop, "event loop"}},
	{match: lazyregexp.New(`Envoy::(?:Config|Server|Init|Secret|Protobuf)|google::protobuf::`),
		to: centre{GroupConfig, "configuration and protobuf"}},

	// ztunnel, by its modules. It shares linkerd2-proxy's libraries.
	{match: lazyregexp.New(`^<?ztunnel::(?:tls|identity|cert_fetcher)::`), to: centre{GroupTLS, "TLS"}},
	{match: lazyregexp.New(`^<?ztunnel::proxy::(?:h2|pool)::`), to: centre{GroupCodec, "HTTP/2"}},
	{match: lazyregexp.New(`^<?ztunnel::(?:proxy::)?metrics::`), to: centre{GroupStats, "statistics"}},
	{match: lazyregexp.New(`^<?ztunnel::telemetry::`), to: centre{GroupTracing, "tracing and logging"}},
	{match: lazyregexp.New(`^<?ztunnel::(?:copy|socket)::`), to: centre{GroupBuffers, "connections and buffers"}},
	{match: lazyregexp.New(`^<?(?:pingora_pool|ztunnel::(?:proxy|proxyfactory|inpod|state|rbac|dns|strng|baggage))::`),
		to: centre{GroupRouting, "routing and upstreams"}},
	{match: lazyregexp.New(`^<?ztunnel::(?:xds|config|app|admin|readiness|hyper_util)::`),
		to: centre{GroupConfig, "configuration and protobuf"}},

	// linkerd2-proxy.
	{match: lazyregexp.New(`^<?(?:rustls|ring|aws_lc|webpki|tokio_rustls|boring|linkerd_meshtls)`),
		to: centre{GroupTLS, "TLS"}},
	{match: lazyregexp.New(`^<?(?:h2|hpack)::`), to: centre{GroupCodec, "HTTP/2"}},
	{match: lazyregexp.New(`^<?(?:hyper|httparse)(?:_util)?::`), to: centre{GroupCodec, "HTTP/1"}},
	{match: lazyregexp.New(`^<?http::`), to: centre{GroupCodec, "headers"}},
	{match: lazyregexp.New(`^<?linkerd_(?:http_metrics|metrics|app_core::metrics|transport_metrics|stack_metrics|` +
		`http_prom)|^<?prometheus`),
		to: centre{GroupStats, "statistics"}},
	{match: lazyregexp.New(`^<?(?:linkerd_http_access_log)`), to: centre{GroupAccessLog, "access log"}},
	{match: lazyregexp.New(`^<?(?:tracing|tracing_core|tracing_subscriber|linkerd_trace_context|linkerd_tracing)::`),
		to: centre{GroupTracing, "tracing and logging"}},
	{match: lazyregexp.New(`^<?linkerd_(?:tls|identity)`), to: centre{GroupTLS, "TLS"}},
	{match: lazyregexp.New(`^<?linkerd_(?:detect|proxy_transport|io|transport_header)`),
		to: centre{GroupBuffers, "connections and buffers"}},
	{match: lazyregexp.New(`^<?linkerd_(?:app_inbound|app_outbound|app_gateway|app|http_route|proxy_balance|pool_p2c|` +
		`proxy_http|router|distribute|http_|proxy_client_policy|proxy_server_policy)`),
		to: centre{GroupRouting, "routing and upstreams"}},
	{match: lazyregexp.New(`^<?linkerd_(?:stack|idle_cache|reconnect|exp_backoff|error)`),
		to: centre{GroupRouting, "layers between"}},
	{match: lazyregexp.New(`^<?(?:tower)(?:_\w+)?::`), to: centre{GroupRouting, "layers between"}},
	{match: lazyregexp.New(`^<?(?:tokio|mio)(?:_\w+)?::`), to: centre{GroupEventLoop, "event loop"}},
	{match: lazyregexp.New(`^<?(?:prost|tonic)::`), to: centre{GroupConfig, "configuration and protobuf"}},

	// Go programs.
	{match: lazyregexp.New(`^runtime\.(?:gc|scan|mark|sweep|bgsweep|bgscavenge|greyobject|wbBuf|\(\*(?:gcWork|mspan|` +
		`sweep|limiter))`),
		to: centre{GroupRuntime, "garbage collection"}},
	{match: lazyregexp.New(`^runtime\.(?:mallocgc|newobject|growslice|makeslice|newstack|\(\*mcache|\(\*mheap|` +
		`\(\*mcentral)`),
		to: centre{GroupRuntime, "allocation"}},
	{match: lazyregexp.New(`^runtime\.(?:schedule|findRunnable|mcall|park_m|netpoll|futex|notesleep|stealWork|wakep|` +
		`startm|ready|goready|mstart|sysmon|epollwait)`),
		to: centre{GroupRuntime, "scheduler"}},
	{prefix: "crypto/", to: centre{GroupTLS, "TLS"}},
	{prefix: "google.golang.org/grpc", to: centre{GroupCodec, "gRPC and HTTP/2"}},
	{prefix: "golang.org/x/net/http2", to: centre{GroupCodec, "gRPC and HTTP/2"}},
	{prefix: "net/http", to: centre{GroupCodec, "HTTP/1 and HTTP/2"}},
	{prefix: "google.golang.org/protobuf", to: centre{GroupPush, "protobuf"}},
	{prefix: "github.com/planetscale/vtprotobuf", to: centre{GroupPush, "protobuf"}},
	{prefix: "github.com/envoyproxy/go-control-plane", to: centre{GroupPush, "protobuf"}},
	{prefix: "istio.io/istio/pilot/pkg/networking", to: centre{GroupPush, "making configuration"}},
	{prefix: "istio.io/istio/pilot/pkg/model", to: centre{GroupPush, "push context and index"}},
	{prefix: "istio.io/istio/pilot/pkg/xds", to: centre{GroupPush, "pushing"}},
	{prefix: "istio.io/istio/pkg/kube", to: centre{GroupPush, "watching Kubernetes"}},
	{prefix: "istio.io/istio/pilot/pkg/serviceregistry", to: centre{GroupPush, "watching Kubernetes"}},
	{prefix: "k8s.io/client-go", to: centre{GroupPush, "watching Kubernetes"}},
	{prefix: "k8s.io/apimachinery", to: centre{GroupPush, "watching Kubernetes"}},
	{prefix: "github.com/prometheus", to: centre{GroupStats, "statistics"}},

	// The kernel.
	{kernel: true, match: lazyregexp.New(`^(?:nf_|nft_|ipt_|xt_|ip6?t_|iptable|conntrack)`),
		to: centre{GroupKernel, "packet filter"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:_*tcp_|_*udp_|_*ip_|ip6_|inet6?_|_*sk_|_*skb_|_*sock_|_*alloc_skb|_*kfree_skb|` +
			`_*sys_(?:send|recv|connect|accept|socket|shutdown)|_*x64_sys_(?:send|recv|connect|accept|` +
			`socket|shutdown)|_*netif_|_*dev_|net_rx|_*napi_|veth_|loopback_|process_backlog|unix_|br_|` +
			`fib_|neigh_|_*release_sock|_*lock_sock|simple_copy_to_iter|csum_|dst_|arp_|eth_)`),
		to: centre{GroupKernel, "network"}},
	{kernel: true, match: lazyregexp.New(`^(?:_*ep_|do_epoll|eventpoll|_*x64_sys_epoll|_*sys_epoll|ep_)`),
		to: centre{GroupKernel, "epoll"}},
	{kernel: true, match: lazyregexp.New(`^(?:futex_|do_futex|_*x64_sys_futex)`), to: centre{GroupKernel, "futex"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:schedule|_*schedule|pick_next|finish_task_switch|try_to_wake_up|wake_up|default_wake|` +
			`prepare_to_wait|dequeue_|enqueue_|ttwu_|update_(?:curr|rq|load))`),
		to: centre{GroupKernel, "scheduler"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:exc_page_fault|asm_exc_page_fault|handle_mm_fault|do_(?:user_addr_|anonymous_|fault)|` +
			`_*x64_sys_(?:mmap|munmap|madvise|brk)|do_mmap|unmap_|zap_|_*alloc_pages|clear_page)`),
		to: centre{GroupKernel, "memory"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:hrtimer_|_*hrtimer|timerfd_|_*x64_sys_(?:timer|clock|nanosleep)|do_nanosleep|` +
			`clock_nanosleep)`),
		to: centre{GroupKernel, "timers"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:vfs_|ext4_|xfs_|btrfs_|overlay_|ovl_|generic_(?:file|perform)|ksys_(?:read|write|pread|` +
			`pwrite)|do_(?:iter_)?(?:read|write)|pipe_|tty_|_*x64_sys_(?:read|write|open|close|stat))`),
		to: centre{GroupKernel, "files and pipes"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:_*irq_|handle_irq|_*do_softirq|do_softirq|asm_sysvec|sysvec_|common_interrupt|` +
			`asm_common_interrupt|rcu_)`),
		to: centre{GroupKernel, "interrupts"}},
	{kernel: true,
		match: lazyregexp.New(`^(?:do_syscall_64|entry_SYSCALL|syscall_|el0_svc|el0t_|invoke_syscall|_*x64_sys_)`),
		to:    centre{GroupKernel, "other system calls"}},
	{kernel: true, match: lazyregexp.New(`.`), to: centre{}}, // the caller decides
}

// centreOf returns a function's cost centre; the zero value if no rule matches it.
func centreOf(f Frame) centre {
	if f.Name == "" && f.Kernel {
		return centre{}
	}
	for _, r := range rules {
		if r.kernel != f.Kernel || !strings.HasPrefix(f.Name, r.prefix) || !strings.Contains(f.Name, r.part) || !strings.Contains(f.Module, r.module) {
			continue
		}
		if r.match == nil {
			return r.to
		}
		m := r.match.FindStringSubmatch(f.Name)
		if m != nil && r.name != nil {
			r.to.name = r.name(m[1])
		}
		if m != nil {
			return r.to
		}
	}
	return centre{}
}

// httpFilterNames maps namespaces to the configured names of filters where these
// differ.
var httpFilterNames = map[string]string{
	"RBACFilter":             "envoy.filters.http.rbac",
	"FaultFilter":            "envoy.filters.http.fault",
	"Fault":                  "envoy.filters.http.fault",
	"RateLimitFilter":        "envoy.filters.http.ratelimit",
	"LocalRateLimitFilter":   "envoy.filters.http.local_ratelimit",
	"HeaderToMetadataFilter": "envoy.filters.http.header_to_metadata",
	"BandwidthLimitFilter":   "envoy.filters.http.bandwidth_limit",
	"GrpcStats":              "envoy.filters.http.grpc_stats",
	"RouterFilter":           "envoy.filters.http.router",
	"IstioStats":             "istio.stats",
	"AlpnFilter":             "istio.alpn",
	"Alpn":                   "istio.alpn",
	"PeerMetadata":           "istio.peer_metadata",
	"ConnectBaggage":         "istio.connect_baggage",
	"IstioAuthn":             "istio_authn",
	"Common":                 "common to HTTP filters",
}

func httpFilterName(namespace string) string {
	if name, ok := httpFilterNames[namespace]; ok {
		return name
	}
	return "envoy.filters.http." + snake(namespace)
}

func networkFilterName(namespace string) string {
	switch namespace {
	case "RBACFilter":
		return "envoy.filters.network.rbac"
	case "RateLimitFilter":
		return "envoy.filters.network.ratelimit"
	case "MetadataExchange":
		return "istio.metadata_exchange"
	}
	return "envoy.filters.network." + snake(namespace)
}

// snake converts CamelCase to snake_case.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r >= 'A' && r <= 'Z' {
			if i > 0 && (s[i-1] < 'A' || s[i-1] > 'Z') {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

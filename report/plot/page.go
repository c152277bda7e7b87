package plot

import (
	"fmt"
	"html"
	"strings"
)

// pageStyle has the colours of both themes; nothing is fetched from anywhere.
const pageStyle = `:root{color-scheme:light dark;--ink:#1d2530;--dim:#5c6773;--line:#c3cad2;--band:#1f77b41f;--cell:#1f77b4;--held:#c2410c;--said:#157f3c;--paper:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--dim:#9aa5b1;--line:#46505b;--band:#6cb6ff24;--cell:#6cb6ff;--held:#ff9b62;--said:#5fd38a;--paper:#14181d}}
body{margin:2rem auto;max-width:70rem;padding:0 1rem;font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}.plots{display:flex;flex-wrap:wrap;gap:1rem}
svg{max-width:100%;height:auto;font:11px system-ui,sans-serif}svg text{fill:var(--ink)}svg .title{font-size:13px;font-weight:600}svg .label,svg .dim{fill:var(--dim)}
.frame{fill:none;stroke:var(--line)}.tick,.grid{stroke:var(--line)}.diagonal{stroke:var(--dim);stroke-dasharray:4 3}.band{fill:var(--band)}
.cell circle{fill:var(--paper);stroke:var(--cell);stroke-width:2}.heldout circle{fill:var(--held)}.heldout .interval{stroke:var(--held);stroke-width:2}.published polygon{fill:var(--said)}
.key span{margin-right:1.5rem}.key b{font-weight:600}.key .c{color:var(--cell)}.key .h{color:var(--held)}.key .p{color:var(--said)}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin-top:1rem;font-variant-numeric:tabular-nums}th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line)}th:first-child,td:first-child{text-align:left}`

// Page is a whole HTML page of a title and a body, which is HTML already.
func Page(title, body string) string {
	title = html.EscapeString(title)
	return fmt.Sprintf("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>%s</title>\n<style>%s</style>\n</head>\n<body>\n<h1>%s</h1>\n%s</body>\n</html>\n",
		title, pageStyle, title, body)
}

// Table is a table, for whoever wants the figures of a plot.
func Table(heads []string, rows [][]string) string {
	var b strings.Builder
	line := func(tag string, cells []string) {
		b.WriteString("<tr>")
		for _, c := range cells {
			fmt.Fprintf(&b, "<%s>%s</%s>", tag, html.EscapeString(c), tag)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("<div class=\"scroll\"><table>\n")
	line("th", heads)
	for _, row := range rows {
		line("td", row)
	}
	b.WriteString("</table></div>\n")
	return b.String()
}

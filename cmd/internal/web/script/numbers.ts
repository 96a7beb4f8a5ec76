// Figures as the server writes them: package report, number.go.

// count is a number with three significant digits and a decimal prefix.
export function count(n: number | undefined): string {
	if (n === undefined) {
		return "-";
	}
	if (n < 1000 && Number.isInteger(n)) {
		return String(n);
	}
	if (n < 1) {
		return String(Number(n.toPrecision(2)));
	}
	let prefix = "";
	for (const next of "kMGTPE") {
		if (Number(n.toPrecision(3)) < 1000) {
			break;
		}
		n /= 1000;
		prefix = next;
	}
	const rounded = Number(n.toPrecision(3));
	return n.toFixed(rounded >= 100 ? 0 : rounded >= 10 ? 1 : 2) + prefix;
}

// percent is a share with one decimal, of which nothing and all are only what is exactly so.
export function percent(share: number): string {
	const p = 100 * share;
	if (p > 0 && p < 0.05) {
		return "<0.1%";
	}
	return p < 100 && p >= 99.95 ? ">99.9%" : p.toFixed(1) + "%";
}

// ratio has two decimals below 10.
export function ratio(n: number | undefined): string {
	if (n === undefined || n >= 99.95) {
		return count(n);
	}
	return n > 0 && n < 0.005 ? "<0.01" : n.toFixed(n >= 9.995 ? 1 : 2);
}

// amount is so much of an event: samples, or the time that they are.
export function amount(event: string, n: number): string {
	return /^(wall$|off-cpu(:|$))/.test(event) ? seconds(n / 1e6) : n + " samples";
}

// seconds is a time.
export function seconds(s: number): string {
	const rounded = Number(s.toPrecision(3));
	return s === 0 || rounded >= 1 ? count(s) + " s" : rounded >= 1e-3 ? count(s * 1e3) + " ms" : count(s * 1e6) + " us";
}

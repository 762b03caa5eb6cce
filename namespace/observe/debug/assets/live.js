"use strict";
(() => {
	const main = document.querySelector("main");
	const state = document.getElementById("live");
	const query = new URLSearchParams(location.search);
	query.set("format", "events");
	let source = null;
	let retry = 0;

	const say = (text, how) => {
		state.textContent = text;
		state.className = how;
	};

	// key identifies an element across updates.
	const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || undefined : undefined);

	const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);

	// morph makes old equal to fresh and touches only the differences, so that focus,
	// selection and opened details stay.
	const morph = (old, fresh) => {
		if (old.nodeType !== Node.ELEMENT_NODE) {
			if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
			return;
		}
		for (const { name } of [...old.attributes]) {
			if (!fresh.hasAttribute(name) && !(name === "open" && old.localName === "details")) old.removeAttribute(name);
		}
		for (const { name, value } of fresh.attributes) {
			if (old.getAttribute(name) !== value) old.setAttribute(name, value);
		}
		children(old, fresh);
	};

	const children = (old, fresh) => {
		const keyed = new Map();
		for (const child of old.childNodes) {
			if (key(child) !== undefined) keyed.set(key(child), child);
		}
		let at = old.firstChild;
		for (const wanted of [...fresh.childNodes]) {
			const known = key(wanted) === undefined ? null : keyed.get(key(wanted));
			if (known && known !== at && same(known, wanted)) {
				old.insertBefore(known, at);
				at = known;
			}
			if (at && same(at, wanted)) {
				morph(at, wanted);
				at = at.nextSibling;
			} else {
				old.insertBefore(wanted, at);
			}
		}
		while (at) {
			const next = at.nextSibling;
			at.remove();
			at = next;
		}
	};

	const show = (html) => {
		const fresh = new DOMParser().parseFromString("<main>\n" + html + "\n</main>", "text/html").querySelector("main");
		morph(main, fresh);
		say("live", "on");
	};

	const close = () => {
		clearTimeout(retry);
		source?.close();
		source = null;
	};

	const open = () => {
		close();
		source = new EventSource("?" + query);
		source.onopen = () => say("live", "on");
		source.onmessage = (event) => show(event.data);
		source.onerror = () => {
			if (source.readyState !== EventSource.CLOSED) {
				say("connection lost, reconnecting", "off");
				return;
			}
			say("not live; retrying in 30 s", "off"); // refused, perhaps because of too many pages
			retry = setTimeout(open, 30000);
		};
	};

	// Hidden pages are not updated.
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) {
			close();
			say("paused", "");
		} else {
			open();
		}
	});
	addEventListener("pagehide", close);
	addEventListener("pageshow", (event) => {
		if (event.persisted) open();
	});
	if (!document.hidden) open();
})();

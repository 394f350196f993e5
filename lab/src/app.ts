/** The page: puts the run, the picture, the charts, the editor and the panels together. */

import { Charts, type Span } from "./charts/charts";
import { CoreFailure, InputProblem, type Client } from "./core/client";
import type { Network, Order, Problem } from "./core/types";
import { byId, save, setText } from "./dom";
import type { Editor } from "./editor/editor";
import { startEditor } from "./editor/start";
import type { Explaining } from "./explain/client";
import { csvOf } from "./files/csv";
import { LESSONS, type Lesson, type Try } from "./lessons";
import { BadVisit, checkSize, fragmentOf, type Visit } from "./link";
import { closeDialog, helpContent, openDialog, prepareDialog } from "./panels/dialog";
import { clearFault, showFault } from "./panels/fault";
import { Difference } from "./panels/difference";
import { Inspector } from "./panels/inspector";
import { LessonCard, lessonList } from "./panels/lessons";
import { Orders } from "./panels/orders";
import { shareDialog } from "./panels/share";
import { Transport } from "./panels/transport";
import { Why } from "./panels/why";
import { networkSvg } from "./files/network-svg";
import { isDark } from "./palette";
import { Picture } from "./picture/picture";
import { Run, type Listener } from "./run";

/** Minimum time between two drawings of the charts, ms; the network is drawn with each frame. */
const CHART_INTERVAL_MS = 50;
/** Speed in simulated seconds per second above which packets jump too far between two pictures to be followed. */
const MAX_SLOW_SPEED = 0.5;
const FIRST_SPEED = 1 / 20;

export class App implements Listener {
  private readonly run: Run;
  private readonly picture: Picture;
  private readonly charts: Charts;
  /** Starts after the first packets are drawn, because it takes as long as everything else. */
  private readonly editor: Promise<Editor>;
  private pictured: () => void = () => undefined;
  private readonly inspector: Inspector;
  private readonly orders: Orders;
  private readonly lessons: LessonCard;
  private readonly transport: Transport;
  private readonly difference = new Difference(byId("difference"));
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");
  private drawn_ms = 0;
  /** Title of the lesson's scenario: a text with another one is the visitor's own. */
  private lessonTitle = "";

  constructor(
    private readonly client: Client,
    private readonly explaining: () => Explaining,
  ) {
    this.run = new Run(client, [this]);
    this.run.speed = FIRST_SPEED;
    this.picture = new Picture(byId("network"), (link) => this.inspect(link));
    this.charts = new Charts(byId("charts"), byId("legend"), (span) => this.spanned(span), () => this.fileName());
    const picture = new Promise<void>((resolve) => (this.pictured = resolve));
    this.editor = picture.then(painted).then(() => this.newEditor());
    this.inspector = new Inspector(byId("inspector"), (change) => this.order(change), () => this.picture.mark(null));
    this.orders = new Orders(byId<HTMLDetailsElement>("orders"), (index) => void this.run.removeOrder(index));
    this.lessons = new LessonCard(byId("lesson"), {
      open: (lesson) => void this.openLesson(lesson),
      attempt: (attempt) => void this.attempt(attempt),
      list: () => this.listLessons(),
    });
    this.transport = new Transport(() => this.run);
    this.listen();
  }

  /** Opens what the page was given: a link, a scenario of the server, or the first lesson. */
  async start(visit: Visit | null): Promise<void> {
    const lesson = LESSONS[0]!;
    try {
      if (visit === null) await this.openLesson(lesson);
      else await this.openVisit(visit);
    } catch (error) {
      showFault(messageOf(error));
      if (error instanceof CoreFailure) return;
      if (this.run.view === null) {
        if (visit !== null) this.load(visit.scenario);
        await this.run.open(lesson.scenario, null);
      }
    }
    const frame = (now: number) => {
      this.run.frame(now);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  private newEditor(): Editor {
    return startEditor(byId("editor"), {
      check: (text) => this.client.call("check", { toml: text }),
      run: () => void this.runText(),
      edited: (isEdited) => byId("run").classList.toggle("stale", isEdited),
      link: (name) => this.picture.mark(name),
      keys: () => this.client.call("keys", {}),
    });
  }

  // Listener of the run

  opened(run: Run): void {
    const { network, store } = run.view!;
    setText(byId("title"), network.title || "Network");
    document.title = `${network.title || "Network"}: Anabranch`;
    this.inspector.close();
    this.picture.show(network);
    this.orders.show(run.orders);
    this.charts.open(store, run.end_ns / 1e9);
    // The picture of the network comes first, and the charts follow.
    this.drawn_ms = performance.now();
    this.advanced(run);
    this.steered(run);
  }

  advanced(run: Run): void {
    const { network, sample, packets, store } = run.view!;
    this.picture.update(sample, packets, (flow, link) => lookOf(network, store.paths, flow, link), (run.speed <= MAX_SLOW_SPEED || !run.isPlaying) && !run.isJumping);
    this.inspector.update(network, sample);
    this.transport.advanced(run);
    if (run.now_ns > 0 || !run.isPlaying) this.pictured();
    const now = performance.now();
    if (now - this.drawn_ms >= CHART_INTERVAL_MS || !run.isPlaying) {
      this.drawn_ms = now;
      this.charts.draw();
      this.difference.show(store, this.charts.keptRun);
      setText(byId("facts"), facts(run));
    }
  }

  changed(run: Run): void {
    this.picture.show(run.view!.network);
    this.inspector.refresh(run.view!.network);
    this.orders.show(run.orders);
  }

  steered(run: Run): void {
    this.transport.steered(run);
    if (run.isPlaying || run.isJumping || run.view === null) return;
    this.charts.draw();
    this.charts.describe();
    void run.digest().then((digest) => {
      if (!run.isPlaying && !run.isJumping) setText(byId("facts"), `${facts(run)} · digest ${digest}`);
    });
    const flows = run.view.store.flows.map((flow) => `${flow.name} ${((flow.goodput_bps.at(-1) ?? 0) / 1e6).toFixed(2)} Mbit/s`);
    setText(byId("live"), `${run.isOver ? "The run is over" : "Paused"} at ${(run.now_ns / 1e9).toFixed(3)} s. Goodput: ${flows.join(", ")}.`);
  }

  failed(message: string): void {
    showFault(`The simulator has failed, which is a bug: ${message}. Load the page again to continue.`);
  }

  // Actions of the visitor

  private async openLesson(lesson: Lesson): Promise<void> {
    closeDialog();
    clearFault();
    byId<HTMLInputElement>("seed").value = "";
    this.run.setSpeed(lesson.speed);
    const opened = this.run.open(lesson.scenario, null, [], this.isPlayWanted);
    this.load(lesson.scenario);
    this.lessons.show(lesson);
    await opened;
    this.lessonTitle = this.run.view!.network.title;
  }

  private async openVisit(visit: Visit, isPlayed = true): Promise<void> {
    checkSize(visit.scenario);
    byId<HTMLInputElement>("seed").value = visit.seed === null ? "" : String(visit.seed);
    this.load(visit.scenario);
    const lesson = LESSONS.find((candidate) => candidate.scenario === visit.scenario);
    try {
      await this.run.open(visit.scenario, visit.seed, visit.orders);
    } catch (error) {
      if (error instanceof InputProblem) this.mark(error.problem);
      throw error;
    }
    const { title } = this.run.view!.network;
    this.lessonTitle = lesson === undefined ? "" : title;
    if (lesson !== undefined) this.lessons.show(lesson);
    else this.lessons.showOwn(title);
    if (isPlayed && this.isPlayWanted) this.run.play();
  }

  private load(scenario: string): void {
    void this.editor.then((editor) => editor.load(scenario));
  }

  private mark(problem: Problem): void {
    void this.editor.then((editor) => editor.show([problem]));
  }

  /** Whether a run plays as soon as it is open. */
  private get isPlayWanted(): boolean {
    return !this.calm.matches;
  }

  /** Runs the text of the editor. */
  private async runText(): Promise<void> {
    const editor = await this.editor;
    const { text } = editor;
    try {
      checkSize(text);
      const seed = seedOf(byId<HTMLInputElement>("seed").value);
      await this.run.open(text, seed);
      editor.started();
      clearFault();
      const { title } = this.run.view!.network;
      if (title !== this.lessonTitle) this.lessons.showOwn(title);
      this.run.play();
    } catch (error) {
      if (error instanceof InputProblem) this.mark(error.problem);
      showFault(messageOf(error));
    }
  }

  private async attempt(attempt: Try): Promise<void> {
    if ("order" in attempt) {
      // At the end of a run a change would have no effect.
      if (this.run.isOver) await this.run.goTo(this.run.end_ns / 3);
      await this.order(attempt.order);
      if (!this.run.isPlaying) this.run.play();
      return;
    }
    const [before, after] = attempt.edit;
    (await this.editor).replace(before, after);
    await this.runText();
  }

  private async order(change: Omit<Order, "at_ns">): Promise<void> {
    await this.run.order(change);
  }

  private inspect(name: string): void {
    const link = this.run.view?.network.links.find((candidate) => candidate.name === name);
    if (link === undefined) return;
    this.picture.mark(name);
    this.inspector.open(link);
    this.inspector.update(this.run.view!.network, this.run.view!.sample);
    void this.editor.then((editor) => editor.reveal(name));
  }

  private spanned(span: Span): void {
    const select = byId<HTMLSelectElement>("span");
    const zoomed = select.options[select.options.length - 1]!;
    zoomed.hidden = typeof span !== "object";
    select.value = typeof span === "object" ? "zoom" : String(span);
  }

  private keep(): void {
    if (this.run.view === null) return;
    this.charts.toggleKept();
    this.difference.show(this.run.view.store, this.charts.keptRun);
    const isKept = this.charts.keptRun !== null;
    setText(byId("keep"), isKept ? "Drop the kept run" : "Keep this run");
    setText(byId("live"), isKept ? "This run is kept: charts of later runs show it, too." : "No run is kept.");
  }

  private listLessons(): void {
    openDialog("Lessons", lessonList((lesson) => void this.openLesson(lesson)));
  }

  /** Explains the present run, which pauses. */
  private why(): void {
    const { run } = this;
    if (run.view === null) return;
    run.pause();
    const flows = run.view.network.flows.filter(({ protocol }) => protocol !== "udp").map(({ name }) => name);
    const { scenario, seed, orders } = run;
    const why = new Why({ scenario, seed, orders, flows }, { start: this.explaining, open: (text) => this.openBeside(text) });
    const content = why.content();
    openDialog("Why is it slow?", content);
    const dialog = byId<HTMLDialogElement>("dialog");
    const closed = () => {
      // The event of a dialog that was closed before can arrive late.
      if (dialog.open && content.isConnected) return;
      dialog.removeEventListener("close", closed);
      why.end();
    };
    dialog.addEventListener("close", closed);
  }

  /** Runs the present scenario and another one to their ends, and compares them. */
  private async openBeside(scenario: string): Promise<void> {
    closeDialog();
    await this.run.finish();
    if (this.charts.keptRun !== this.run.view!.store) {
      if (this.charts.keptRun !== null) this.keep();
      this.keep();
    }
    try {
      await this.openVisit({ scenario, seed: null, orders: [] }, false);
      await this.run.finish();
    } catch (error) {
      showFault(messageOf(error));
    }
  }

  private share(): void {
    const content = shareDialog({
      copyLink: () => this.link(),
      saveScenario: async () => save(`${this.fileName()}.toml`, await this.run.asScenario()),
      saveCsv: () => this.saveAll(),
      savePicture: async () => save(`${this.fileName()}-network.svg`, networkSvg(this.picture.layers), "image/svg+xml"),
      saveResult: () => this.saveResult(),
      openFile: (file) => this.openFile(file),
    });
    openDialog("Share and save", content);
  }

  private async link(): Promise<string> {
    const fragment = await fragmentOf({ scenario: this.run.scenario, seed: this.run.seed, orders: this.run.orders });
    history.replaceState(null, "", `#${fragment}`);
    return location.href;
  }

  private saveAll(): void {
    const store = this.run.view!.store;
    const lines = this.charts.charts.flatMap(({ kind }) => kind.lines(store).map((line) => ({ ...line, label: `${kind.title} in ${kind.unit}: ${line.label}` })));
    save(`${this.fileName()}.csv`, csvOf(store, lines, ""), "text/csv");
  }

  private async saveResult(): Promise<void> {
    closeDialog();
    try {
      save(`${this.fileName()}.json`, JSON.stringify(await this.run.result(), null, 2), "application/json");
    } catch (error) {
      showFault(messageOf(error));
    }
  }

  private async openFile(file: File): Promise<void> {
    closeDialog();
    try {
      await this.openVisit({ scenario: await file.text(), seed: null, orders: [] });
      clearFault();
    } catch (error) {
      showFault(messageOf(error));
    }
  }

  private fileName(): string {
    const title = this.run.view?.network.title ?? "";
    return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "anabranch";
  }

  private listen(): void {
    prepareDialog();
    byId("run").addEventListener("click", () => void this.runText());
    byId("lessons-button").addEventListener("click", () => this.listLessons());
    byId("why").addEventListener("click", () => this.why());
    byId("keep").addEventListener("click", () => this.keep());
    byId("share-button").addEventListener("click", () => this.share());
    byId("help").addEventListener("click", () => openDialog("Keys and help", helpContent()));
    byId("theme").addEventListener("click", () => this.setTheme(!isDark()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => this.setTheme(event.matches));
    byId<HTMLSelectElement>("span").addEventListener("change", (event) => {
      const { value } = event.target as HTMLSelectElement;
      if (value !== "zoom") this.charts.show(value === "whole" ? "whole" : Number(value));
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  private setTheme(isNowDark: boolean): void {
    document.documentElement.dataset["theme"] = isNowDark ? "dark" : "light";
    this.charts.restyle();
    if (this.run.view !== null) this.advanced(this.run);
  }

  /** Keys of the whole page; controls that need the same keys come first. */
  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const isTyping = target.closest("input, select, textarea, .cm-editor, dialog") !== null;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && target.closest("button, a, summary") !== null) return;
    const actions: Record<string, () => void> = {
      " ": () => this.transport.toggle(),
      ".": () => void this.run.step(1e6),
      r: () => void this.transport.restart(),
      "[": () => this.transport.faster(-1),
      "]": () => this.transport.faster(1),
      k: () => this.keep(),
      w: () => this.why(),
      l: () => this.listLessons(),
      "?": () => openDialog("Keys and help", helpContent()),
    };
    const act = actions[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }
}

/** Waits until the browser has painted the present state. */
function painted(): Promise<void> {
  return new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}

/** Index of the colour of a flow's packet on a link: the colour of the path that contains the link. */
function lookOf(network: Network, paths: { flow: number; path: number; look: number }[], flow: number, link: number): number {
  const name = network.links[link]?.name ?? "";
  const own = paths.filter((path) => path.flow === flow);
  const found = own.find((path) => network.flows[flow]?.paths[path.path]?.links.includes(name));
  return (found ?? own[0])?.look ?? flow;
}

function facts(run: Run): string {
  return `${run.events.toLocaleString("en")} events · seed ${run.view?.network.seed ?? ""}`;
}

function seedOf(text: string): number | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const seed = Number(trimmed);
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new BadVisit(`The seed must be a whole number from 0 to ${Number.MAX_SAFE_INTEGER}, but is "${trimmed}".`);
  }
  return seed;
}

/** An error of the input in one sentence, with its line. */
function messageOf(error: unknown): string {
  if (error instanceof InputProblem) {
    const { line, message } = error.problem;
    return line === null ? message : `Line ${line}: ${message}`;
  }
  return error instanceof Error ? error.message : String(error);
}

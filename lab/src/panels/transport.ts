/** Play, pause, step, restart, speed and time. */

import { byId, setText } from "../dom";
import { SPEEDS, type Run } from "../run";
import { factorText, timeText } from "../units";

const STEP_NS = 1e6;
const TIME_STEPS = 1000;
/** The reached speed is shown if it is below this share of the chosen one. */
const BEHIND = 0.7;

export class Transport {
  private readonly play = byId<HTMLButtonElement>("play");
  private readonly speed = byId<HTMLInputElement>("speed");
  private readonly time = byId<HTMLInputElement>("time");
  private isDragging = false;

  constructor(private readonly run: () => Run) {
    this.play.addEventListener("click", () => this.toggle());
    byId("step").addEventListener("click", () => void this.run().step(STEP_NS));
    byId("restart").addEventListener("click", () => void this.restart());
    this.speed.max = String(SPEEDS.length - 1);
    this.time.max = String(TIME_STEPS);
    this.speed.addEventListener("input", () => this.run().setSpeed(SPEEDS[Number(this.speed.value)]!));
    this.time.addEventListener("input", () => {
      this.isDragging = true;
      const to = (Number(this.time.value) / TIME_STEPS) * this.run().end_ns;
      setText(byId("clock"), `to ${timeText(to)}`);
    });
    this.time.addEventListener("change", () => {
      this.isDragging = false;
      void this.run().seek((Number(this.time.value) / TIME_STEPS) * this.run().end_ns);
    });
  }

  toggle(): void {
    const run = this.run();
    if (run.isPlaying || run.isJumping) run.pause();
    else if (run.isOver) void this.restart();
    else run.play();
  }

  async restart(): Promise<void> {
    await this.run().restart();
    this.run().play();
  }

  faster(by: number): void {
    const index = Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(this.run().speed as never) + by));
    this.run().setSpeed(SPEEDS[index]!);
  }

  steered(run: Run): void {
    const isOn = run.isPlaying || run.isJumping;
    this.play.classList.toggle("playing", isOn);
    this.play.setAttribute("aria-label", isOn ? "Pause" : run.isOver ? "Play again from the start" : "Play");
    this.play.title = `${isOn ? "Pause" : "Play"} (space)`;
    this.speed.value = String(SPEEDS.indexOf(run.speed as never));
    this.speed.setAttribute("aria-valuetext", factorText(run.speed));
    this.advanced(run);
  }

  advanced(run: Run): void {
    if (!this.isDragging) {
      setText(byId("clock"), `${timeText(run.now_ns)} of ${Number((run.end_ns / 1e9).toFixed(3))} s`);
      this.time.value = String(Math.round((run.now_ns / Math.max(1, run.end_ns)) * TIME_STEPS));
      this.time.setAttribute("aria-valuetext", timeText(run.now_ns));
    }
    const isBehind = run.isPlaying && run.speed !== Infinity && run.reached > 0 && run.reached < BEHIND * run.speed;
    const reached = isBehind || (run.isPlaying && run.speed === Infinity && run.reached > 0);
    setText(byId("speed-text"), reached ? `${isBehind ? "at most" : "now"} ${factorText(Number(run.reached.toPrecision(2)))}` : factorText(run.speed));
  }
}

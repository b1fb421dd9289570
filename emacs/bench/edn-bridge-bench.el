;;; edn-bridge-bench.el --- How fast frames are read and shown  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; emacs -Q --batch -L emacs -l emacs/bench/edn-bridge-bench.el
;;
;; Prints a table.  The same data as JSON, read by the native
;; `json-parse-string', stands beside.  Times are the medians of five runs
;; with Emacs's default settings; the column beside says how much of a time
;; went into collecting garbage, what the run had left behind included.

;;; Code:

(require 'cl-lib)
(require 'bytecomp)

(defconst bench-package
  (file-name-directory
   (directory-file-name (file-name-directory load-file-name)))
  "The folder of the package.")

(defconst bench-compiled (make-temp-file "edn-bridge-bench" t)
  "Where the compiled files go.")

(push bench-package load-path)
(let ((inhibit-message t)
      (byte-compile-dest-file-function
       (lambda (file)
         (expand-file-name (concat (file-name-nondirectory file) "c")
                           bench-compiled))))
  (dolist (file (directory-files bench-package t "\\`edn-bridge[a-z-]*\\.el\\'"))
    (byte-compile-file file)))
(push bench-compiled load-path)
(dolist (file (directory-files bench-compiled t "\\.elc\\'"))
  (load file nil t))
(delete-directory bench-compiled t)

(declare-function edn-bridge-edn-read-bytes "edn-bridge-edn")
(declare-function edn-bridge-edn-read-plist-bytes "edn-bridge-edn")
(declare-function edn-bridge-rpc--make-connection "edn-bridge-rpc")
(declare-function edn-bridge-rpc--receive "edn-bridge-rpc")
(declare-function edn-bridge-rpc--dispatch "edn-bridge-rpc")
(declare-function edn-bridge-rpc-connection-lines "edn-bridge-rpc")
(declare-function edn-bridge-tools-toggle "edn-bridge-tools")
(declare-function edn-bridge-chat-mode "edn-bridge-chat")
(declare-function edn-bridge-chat--on-event "edn-bridge-chat")
(declare-function edn-bridge-chat--on-batch "edn-bridge-chat")
(defvar edn-bridge-chat--conn)
(defvar edn-bridge-chat--session-id)
(defvar edn-bridge-chat-page)

;;;; Data

(defconst bench-frames 20000 "How many delta frames are read.")

(defconst bench-session "0198f3a2-7c1e-7d3a-9b54-3f2a1c5d7e90"
  "A session's id.")

(defun bench-frame (kind n text)
  "Return the bytes of the Nth delta frame, with TEXT, in the form KIND."
  (encode-coding-string
   (let ((print-escape-newlines t))
    (format
    (pcase kind
      ('map
       "{:kind :event :event \"assistant/delta\" :seq %d :ts \"2026-11-22T01:16:04.123Z\" :data {:session-id %S :offset %d :turn-id \"turn-17\" :text %S}}")
      ('plist
       "(:kind :event :event \"assistant/delta\" :seq %d :ts \"2026-11-22T01:16:04.123Z\" :data (:session-id %S :offset %d :turn-id \"turn-17\" :text %S))")
      ('json
       "{\"kind\":\"event\",\"event\":\"assistant/delta\",\"seq\":%d,\"ts\":\"2026-11-22T01:16:04.123Z\",\"data\":{\"session-id\":%S,\"offset\":%d,\"turn-id\":\"turn-17\",\"text\":%S}}"))
    n bench-session n text))
   'utf-8-unix))

(defun bench-lines (kind)
  "Return the lines of all delta frames in the form KIND."
  (cl-loop for n below bench-frames
           collect (bench-frame kind n (format " word%d and" n))))

;;;; Measuring

(defmacro bench-time (&rest body)
  "Return the seconds that BODY takes, and those of them in garbage collection."
  `(let ((collecting gc-elapsed)
         (start (float-time)))
     ,@body
     ;; What was left for later is paid for here, as Emacs would soon.
     (bench-collect)
     (list (- (float-time) start) (- gc-elapsed collecting))))

(defun bench-collect ()
  "Have Emacs collect garbage if it is due."
  (make-string 1 ?x)
  (eval '(ignore) t))

(defmacro bench-median (&rest body)
  "Return the median, by its seconds, of what `bench-time' says of five runs."
  `(let ((times nil))
     (dotimes (_ 5)
       (garbage-collect)
       (push (bench-time ,@body) times))
     (nth 2 (sort times (lambda (a b) (< (car a) (car b)))))))

(defun bench-row (name time &optional note)
  "Print a row: NAME, TIME (seconds, and those in garbage collection) and NOTE."
  (princ (format "| %-54s | %7.1f ms | %6.1f ms | %-38s |\n" name
                 (* 1000 (nth 0 time)) (* 1000 (nth 1 time))
                 (or note ""))))

(defun bench-read-all (lines function)
  "Call FUNCTION with each of LINES."
  (dolist (line lines)
    (funcall function line)))

(defun bench-json (line)
  "Read LINE as JSON, with the defaults of `json-parse-string'."
  (json-parse-string line))

(defun bench-json-plist (line)
  "Read LINE as JSON into the same data as the frames."
  (json-parse-string line :object-type 'plist
                     :null-object nil :false-object :false))

(dolist (function '(bench-read-all bench-json bench-json-plist))
  (byte-compile function))

(defun bench-decode ()
  "Measure how long delta frames take to be read."
  (let* ((json-lines (bench-lines 'json))
         (map-lines (bench-lines 'map))
         (plist-lines (bench-lines 'plist))
         (json (bench-median (bench-read-all json-lines #'bench-json)))
         (json-plist (bench-median
                      (bench-read-all json-lines #'bench-json-plist)))
         (map (bench-median
               (bench-read-all map-lines #'edn-bridge-edn-read-bytes)))
         (plist (bench-median
                 (bench-read-all plist-lines
                                 #'edn-bridge-edn-read-plist-bytes)))
         (against (lambda (time)
                    (format "%.2fx JSON, %.2fx JSON as plists"
                            (/ (car time) (car json))
                            (/ (car time) (car json-plist))))))
    (bench-row (format "%d deltas, json-parse-string" bench-frames) json)
    (bench-row (format "%d deltas, json-parse-string into plists" bench-frames)
               json-plist)
    (bench-row (format "%d deltas, map frames" bench-frames)
               map (funcall against map))
    (bench-row (format "%d deltas, plist frames" bench-frames)
               plist (funcall against plist))))

(defun bench-connection (&rest keys)
  "Return a connection without a process, with more slots by KEYS."
  (apply #'edn-bridge-rpc--make-connection
         :name "bench" :state 'ready
         :pending (make-hash-table :test #'equal)
         (append keys
                 (list :on-event #'ignore :on-batch #'ignore
                       :on-ready #'ignore :on-close #'ignore
                       :on-gap #'ignore))))

(defun bench-receive (conn bytes size)
  "Have CONN receive BYTES in chunks of SIZE and dispatch them."
  (let ((start 0))
    (while (< start (length bytes))
      (edn-bridge-rpc--receive
       conn (substring bytes start (min (length bytes) (+ start size))))
      (setq start (+ start size))))
  (while (edn-bridge-rpc-connection-lines conn)
    (edn-bridge-rpc--dispatch conn)))

(defun bench-long-line ()
  "Measure how long a line of 1 MiB in chunks of 4 KiB takes."
  (let ((text (mapconcat #'identity
                         (make-list (/ (* 1024 1024) 32)
                                    "let x = \"{a}\"; // Grüße\n      ")
                         "")))
    (dolist (kind '(map plist))
      (let ((bytes (concat (bench-frame kind 1 (substring text 0 980000)) "\n"))
            (conn (bench-connection
                   :plist-frames (eq kind 'plist))))
        (bench-row (format "one line of %.2f MiB in chunks of 4 KiB, %s frame"
                           (/ (length bytes) 1048576.0) kind)
                   (bench-median (bench-receive conn bytes 4096)))))
    (let ((json (decode-coding-string
                 (bench-frame 'json 1 (substring text 0 980000))
                 'utf-8-unix)))
      (bench-row "the same line whole, json-parse-string"
                 (bench-median (json-parse-string json))))))

(defmacro bench-with-chat (&rest body)
  "Run BODY in a chat buffer with a connection `conn' that is bound."
  `(let* ((buffer (generate-new-buffer "*bench*"))
          (conn (bench-connection :context buffer
                                  :on-event #'edn-bridge-chat--on-event
                                  :on-batch #'edn-bridge-chat--on-batch)))
     (with-current-buffer buffer
       (edn-bridge-chat-mode)
       (setq edn-bridge-chat--conn conn
             edn-bridge-chat--session-id bench-session)
       (remove-hook 'kill-buffer-hook 'edn-bridge-chat--on-kill t)
       (prog1 (progn ,@body)
         (kill-buffer buffer)))))

(defun bench-stream (count texts)
  "Return what `bench-time' says of each half of COUNT deltas.
Each is shown by itself; TEXTS are used in turn."
  (bench-with-chat
   (let ((halves nil)
         (n 0))
     (garbage-collect)
     (dotimes (_ 2)
       (push (bench-time
              (dotimes (_ (/ count 2))
                (edn-bridge-chat--on-event
                 conn "assistant/delta"
                 (list :session-id bench-session
                       :text (aref texts (% n (length texts)))))
                (edn-bridge-chat--on-batch conn)
                (cl-incf n)))
             halves))
     (nreverse halves))))

(defun bench-render ()
  "Measure how long deltas take to be shown in one message."
  (pcase-dolist
      (`(,name ,texts)
       `(("prose without a line break" [" word" " and" " more,"])
         ("markdown"
          ["Some " "**strong**" " words" " with `co" "de` in\n" "- a list\n"
           "\n```el\n" "(message" " \"hi\")\n" "```\n"])))
    (dolist (count '(10000 40000))
      (pcase-let ((`(,first ,second) (bench-stream count texts)))
        (let ((both (cl-mapcar #'+ first second)))
          (bench-row (format "%d deltas into one message, %s" count name)
                     both
                     (format "%.3f ms each; 2nd half / 1st: %.2f"
                             (/ (* 1000 (car both)) count)
                             (/ (car second) (car first)))))))))

(defun bench-resident ()
  "Return the resident memory of this Emacs in MB, or nil."
  (garbage-collect)
  (when (file-readable-p "/proc/self/status")
    (with-temp-buffer
      (insert-file-contents "/proc/self/status")
      (when (re-search-forward "^VmRSS:[ \t]*\\([0-9]+\\)" nil t)
        (/ (string-to-number (match-string 1)) 1024.0)))))

(defun bench-memory ()
  "Measure the memory that 100,000 deltas in one message take."
  ;; What the first ones make for good is not theirs.
  (bench-stream 1000 [" word" " and" " **more**," "\n"])
  (let* ((before (bench-resident))
         (text-bytes 0)
         (time (bench-with-chat
                (prog1 (bench-time
                        (dotimes (n 100000)
                          (edn-bridge-chat--on-event
                           conn "assistant/delta"
                           (list :session-id bench-session
                                 :text (aref [" word" " and" " **more**," "\n"]
                                             (% n 4))))
                          (edn-bridge-chat--on-batch conn)))
                  (setq text-bytes (buffer-size)
                        before (and before (- (bench-resident) before)))))))
    (bench-row "100000 deltas into one message, and their memory" time
               (if before
                   (format "%.1f MB more, for %.1f MB of text" before
                           (/ text-bytes 1e6))
                 "no /proc here"))))

(declare-function edn-bridge-markdown-region "edn-bridge-markdown")
(declare-function edn-bridge-markdown-fit-table "edn-bridge-markdown")
(declare-function edn-bridge-markdown-setup "edn-bridge-markdown")

(defun bench-table ()
  "Measure how long a table of 500 rows takes to be laid out."
  (let ((table (concat "| name | figure | note |\n|---|--:|---|\n"
                       (mapconcat (lambda (n)
                                    (format "| row %d | %d | a **note**, 世界 |\n"
                                            n (* n n)))
                                  (number-sequence 1 500) ""))))
    (with-temp-buffer
      (edn-bridge-markdown-setup)
      (insert table)
      (bench-row "a table of 500 rows, laid out"
                 (bench-median
                  (set-text-properties (point-min) (point-max) nil)
                  (edn-bridge-markdown-region (point-min) (point-max))))
      (let ((columns 10))
        (cl-letf (((symbol-function 'edn-bridge-markdown--table-width)
                   (lambda () columns)))
          (bench-row "the same, when its window gets narrow or wide"
                     (bench-median
                      (setq columns (- 110 columns))
                      (edn-bridge-markdown-fit-table
                       (point-min)
                       (get-text-property (point-min)
                                          'edn-bridge-markdown-fitted)))))))))

(defun bench-open ()
  "Measure how long a session of 10,000 messages takes to be shown."
  (let ((messages
         (vconcat
          (cl-loop for n below 10000
                   collect (list :id (format "e%d" n)
                                 :role (if (cl-evenp n) "user" "assistant")
                                 :content
                                 (vector
                                  (list :type :text
                                        :text (format "Message **%d**\n\n- `a`\n- b\n" n))))))))
    (bench-row "10000 messages rehydrated, the newest page shown"
               (bench-with-chat
                (bench-median
                 (edn-bridge-chat--on-event
                  conn "session/rehydrated"
                  (list :session-id bench-session :messages messages)))))
    (let ((edn-bridge-chat-page 10000))
      (bench-row "10000 messages rehydrated, all shown"
                 (bench-with-chat
                  (bench-median
                   (edn-bridge-chat--on-event
                    conn "session/rehydrated"
                    (list :session-id bench-session :messages messages))))))))

(defun bench-result ()
  "Measure how long the result of a tool that is 1 MiB long takes."
  (let* ((text (mapconcat #'identity
                          (make-list (/ (* 1024 1024) 32)
                                     "src/main.rs:12:5: warning: so\n ") ""))
         (bytes (concat
                 (encode-coding-string
                  (let ((print-escape-newlines t))
                    (format "(:kind :event :event \"tool/result\" :seq 1 :data (:session-id %S :tool-id \"c1\" :tool-name \"bash\" :call-summary \"make\" :content [] :is-error :false :result-text %S))"
                            bench-session text))
                  'utf-8-unix)
                 "\n")))
    (bench-with-chat
     (setf (edn-bridge-rpc-connection-plist-frames conn) t)
     (bench-row (format "a tool's result of %.2f MiB, received and shown folded"
                        (/ (length bytes) 1048576.0))
                (bench-median (bench-receive conn bytes 4096)))
     (bench-row "unfolded, as far as it is shown"
                (bench-median (edn-bridge-tools-toggle))))))

(princ (format "GNU Emacs %s, gc-cons-threshold %d\n\n"
               emacs-version gc-cons-threshold))
(princ (format "| %-54s | %10s | %9s | %-38s |\n|%s|%s|%s|%s|\n"
               "what" "time" "of it GC" ""
               (make-string 56 ?-) (make-string 12 ?-) (make-string 11 ?-)
               (make-string 40 ?-)))
(bench-decode)
(bench-long-line)
(bench-render)
(bench-memory)
(bench-table)
(bench-result)
(bench-open)

;;; edn-bridge-bench.el ends here

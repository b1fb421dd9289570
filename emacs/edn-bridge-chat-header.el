;;; edn-bridge-chat-header.el --- The header line and the footer of a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The header line says what the session does and which model it has, and
;; counts seconds while something is waited for.  The footer stands below the
;; draft; other files add lines above it with `edn-bridge-chat-set-status'.

;;; Code:

(require 'subr-x)
(require 'edn-bridge-chat-state)
(require 'edn-bridge-rpc)
(require 'edn-bridge-transcript)
(require 'edn-bridge-visible)

(defvar edn-bridge-chat-clock-hook nil
  "Normal hook run in a chat buffer every second while a turn is running.")

;;;; Header line

(defvar-local edn-bridge-chat--clock nil
  "Timer that counts the seconds to the next try, while one is waited for.")

(defun edn-bridge-chat-run-state ()
  "Return in a word or two what the session is doing."
  (let ((retry (edn-bridge-chat-get :retry-attempt))
        (pending (edn-bridge-chat-get :pending-message-count)))
    (concat
     (cond
      (edn-bridge-chat-asking
       (propertize "asks" 'face 'edn-bridge-header-accent))
      ((and (edn-bridge-chat-running-p)
            (integerp retry) (> retry 0)
            (edn-bridge-chat-get :retry))
       (format "retry %d%s%s" retry (edn-bridge-chat--retry-countdown)
               (if edn-bridge-chat--retry-kind
                   (concat ": " (edn-bridge-chat--escape
                                 edn-bridge-chat--retry-kind))
                 "")))
      ((edn-bridge-edn-true-p (edn-bridge-chat-get :is-compacting))
       "compacting")
      ((and (edn-bridge-chat-running-p) edn-bridge-chat-working)
       (edn-bridge-chat--running-tools))
      ((and (edn-bridge-chat-running-p) (edn-bridge-chat--model-step)))
      ((edn-bridge-chat-running-p)
       (let ((phase (edn-bridge-chat-word (edn-bridge-chat-get :phase))))
         (concat (if (member phase '(nil "idle")) "running" phase)
                 (edn-bridge-chat--waiting))))
      (t "idle"))
     (if (and (integerp pending) (> pending 0))
         (format " +%d" pending)
       ""))))

(defun edn-bridge-chat--model-step ()
  "Return that the model thinks or writes a call, and for how long, or nil."
  (let* ((activity (edn-bridge-chat-get :activity))
         (since (plist-get activity :since-ms))
         (seconds (and (numberp since)
                       (floor (- (float-time) (/ since 1000.0)))))
         (doing (pcase (edn-bridge-chat-word (plist-get activity :kind))
                  ("thinking" "thinking")
                  ("calling"
                   (concat "writing "
                           (or (edn-bridge-chat--escape
                                (plist-get activity :tool-name))
                               "a call"))))))
    (and doing
         (if (and seconds (> seconds 0))
             (concat doing " " (edn-bridge-chat--duration seconds))
           doing))))

(defun edn-bridge-chat--retry-countdown ()
  "Return in how many seconds the model is called again, as text."
  (let* ((deadline (edn-bridge-chat-get :retry-deadline-ms))
         (seconds (and (numberp deadline)
                       (ceiling (- (/ deadline 1000.0) (float-time))))))
    (if (and seconds (> seconds 0))
        (format " in %d s" seconds)
      "")))

(defconst edn-bridge-chat--retry-words
  '(("rate-limited" . "rate limit") ("dropped" . "connection lost")
    ("malformed" . "unreadable answer"))
  "Words for why the model is called again, where the bridge's are others.")

(defun edn-bridge-chat--on-retry (data)
  "Note why the model is called again, by DATA of `turn/retry'."
  (when (edn-bridge-chat-mine-p data)
    (let ((kind (edn-bridge-chat-word (plist-get data :kind))))
      (setq edn-bridge-chat--retry-kind
            (or (cdr (assoc kind edn-bridge-chat--retry-words)) kind))
      (force-mode-line-update))))

(defun edn-bridge-chat--duration (seconds)
  "Return SECONDS, an integer, as text."
  (if (< seconds 60)
      (format "%d s" seconds)
    (format "%d:%02d" (/ seconds 60) (% seconds 60))))

(defun edn-bridge-chat--running-tools ()
  "Return which tools run, and for how long the first of them has."
  (let* ((calls (mapcar #'cdr edn-bridge-chat-working))
         (seconds (floor (- (float-time)
                            (apply #'min (mapcar #'cdr calls))))))
    (concat (edn-bridge-chat--escape
             (string-join (seq-uniq (nreverse (mapcar #'car calls))) ", "))
            (if (> seconds 0)
                (concat " " (edn-bridge-chat--duration seconds))
              ""))))

(defconst edn-bridge-chat--silence 3
  "After how many seconds without news it is said what is waited for.")

(defun edn-bridge-chat--waiting ()
  "Return for how long nothing has come from the model, or nothing."
  (let ((seconds (and edn-bridge-chat--heard
                      (floor (- (float-time) edn-bridge-chat--heard)))))
    (if (or (null seconds) (< seconds edn-bridge-chat--silence))
        ""
      (format ", no word from %s for %s"
              (or (edn-bridge-chat--escape
                   (edn-bridge-chat-word (edn-bridge-chat-get :model-id)))
                  "the model")
              (edn-bridge-chat--duration seconds)))))

(defun edn-bridge-chat--run-clock ()
  "See to it that the header line counts seconds while something is waited for."
  (let ((waiting (edn-bridge-chat-running-p)))
    (cond
     ((and waiting (not edn-bridge-chat--clock))
      (let ((buffer (current-buffer)))
        (setq edn-bridge-chat--clock
              (run-at-time 1 1 (lambda () (edn-bridge-chat--tick buffer))))))
     ((and edn-bridge-chat--clock (not waiting))
      (cancel-timer edn-bridge-chat--clock)
      (setq edn-bridge-chat--clock nil)))))

(defun edn-bridge-chat--tick (buffer)
  "Have the header line of the chat BUFFER say what the time is now."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (edn-bridge-chat--run-clock)
      (run-hooks 'edn-bridge-chat-clock-hook)
      (force-mode-line-update))))

;; What is left out first where the window is narrow has the highest number:
;; state, mode and questions are there to the last.
(defconst edn-bridge-chat--header-fields
  '((edn-bridge-chat--header-state 0 edn-bridge-menu
     "What the session does; mouse-1: all commands")
    (edn-bridge-chat--where 2 nil "On which host the session is")
    (edn-bridge-chat--header-model 3 edn-bridge-models-choose
     "The model, or the external agent; mouse-1: another one")
    (edn-bridge-chat--header-thinking 5 edn-bridge-models-think
     "How much the model thinks; mouse-1: change it")
    (edn-bridge-chat--header-mode 1 edn-bridge-models-set-mode
     "What is allowed without a question; mouse-1: change it")
    (edn-bridge-chat--header-name 4 edn-bridge-sessions-rename
     "The name of the session; mouse-1: rename it"))
  "What the header line has, from left to right.
Each is a function that returns its text or nil, how soon it is left out of
a narrow window, the command that a click on it calls, and a tooltip.")

(defun edn-bridge-chat--header-line ()
  "Return the header line of a chat buffer, as wide as its window."
  (let* ((width (window-width (or (get-buffer-window nil t)
                                  (selected-window))))
         (fields (delq nil
                       (mapcar
                        (pcase-lambda (`(,function ,rank . ,more))
                          (when-let ((text (funcall function)))
                            (list rank (edn-bridge-chat--header-field
                                        text more))))
                        edn-bridge-chat--header-fields))))
    (while (and (cdr fields)
                (> (edn-bridge-chat--header-width fields) width))
      (let ((last (car (seq-sort-by #'car #'> fields))))
        (setq fields
              (or (edn-bridge-chat--header-shorten fields last width)
                  (remq last fields)))))
    (concat " " (mapconcat #'cadr fields
                           (propertize " · " 'face 'edn-bridge-header-muted)))))

(defun edn-bridge-chat--header-field (text more)
  "Return TEXT, of a field, with the command and the tooltip in MORE."
  (pcase-let ((`(,command ,help) more)
              (text (copy-sequence text)))
    (add-text-properties 0 (length text) (list 'help-echo help) text)
    (when command
      (add-text-properties
       0 (length text)
       (list 'mouse-face 'mode-line-highlight
             'keymap (edn-bridge-chat--header-map command))
       text))
    text))

(defvar edn-bridge-chat--header-maps nil
  "Keymaps of the fields of header lines: an alist by command.")

(defun edn-bridge-chat--header-map (command)
  "Return a keymap for a field whose click calls COMMAND."
  (or (alist-get command edn-bridge-chat--header-maps)
      (let ((map (make-sparse-keymap)))
        (define-key map [header-line mouse-1]
          (lambda (event)
            (interactive "e")
            (with-selected-window (posn-window (event-start event))
              (call-interactively command))))
        (setf (alist-get command edn-bridge-chat--header-maps) map))))

(defun edn-bridge-chat--header-width (fields)
  "Return how many columns the header line takes with FIELDS."
  (+ 1 (* 3 (1- (length fields)))
     (apply #'+ (mapcar (lambda (field)
                          (string-width (string-replace "%%" "%" (cadr field))))
                        fields))))

(defun edn-bridge-chat--header-shorten (fields field width)
  "Return FIELDS with the FIELD of them shortened for WIDTH columns, or nil.
That is done with the name, of which the beginning says enough."
  (let ((over (- (edn-bridge-chat--header-width fields) width))
        (text (cadr field)))
    (and (eql (car field) 4)
         (>= (- (string-width text) over) 8)
         (not (string-search "%" text))
         (mapcar (lambda (one)
                   (if (eq one field)
                       (list 4 (truncate-string-to-width
                                text (- (string-width text) over)
                                nil nil "…"))
                     one))
                 fields))))

(defun edn-bridge-chat--header-named (name value)
  "Return VALUE, unless nil, with its NAME before it."
  (and value
       (concat (propertize (concat name " ") 'face 'edn-bridge-header-muted)
               value)))

(defun edn-bridge-chat--header-state ()
  "Return whether the connection is there, and what the session does."
  (let ((conn edn-bridge-chat--conn))
    (cond ((edn-bridge-rpc-ready-p conn)
           (let ((state (edn-bridge-chat-run-state)))
             (when (edn-bridge-chat-running-p)
               (add-face-text-property 0 (length state)
                                       'mode-line-emphasis t state))
             (concat "ready" (propertize " · " 'face 'edn-bridge-header-muted)
                     state)))
          ((or (edn-bridge-rpc-live-p conn)
               (timerp edn-bridge-chat--return))
           "connecting")
          (t (propertize "disconnected" 'face 'edn-bridge-header-error)))))

(defun edn-bridge-chat--header-model ()
  "Return what the header line says about the model or the agent, or nil."
  (let ((label (edn-bridge-chat-get :header-model-label))
        (id (edn-bridge-chat-get :model-id)))
    (cond
     ((and label (string-prefix-p "agent " label))
      (edn-bridge-chat--header-named
       "agent" (edn-bridge-chat--escape (substring label (length "agent ")))))
     ((edn-bridge-chat-get :setup)
      (propertize (or (edn-bridge-chat--escape label) "no model yet")
                  'face 'edn-bridge-header-accent))
     (t
      (edn-bridge-chat--header-named
       "model" (edn-bridge-chat--escape (or id label)))))))

(defun edn-bridge-chat--header-thinking ()
  "Return how much the model thinks, or nil where it cannot."
  (let ((label (edn-bridge-chat-get :header-model-label))
        (level (edn-bridge-chat-word (edn-bridge-chat-get :thinking-level))))
    ;; The bridge names the level of a model that can think.
    (and level
         (if label
             (and (not (string-prefix-p "agent " label))
                  (string-search " · " label))
           (not (equal level "off")))
         (edn-bridge-chat--header-named "thinking"
                                        (edn-bridge-chat--escape level)))))

(defun edn-bridge-chat--header-mode ()
  "Return the mode of permissions, or nil."
  (edn-bridge-chat--header-named
   "mode" (edn-bridge-chat--escape
           (edn-bridge-chat-word (edn-bridge-chat-get :mode)))))

(defun edn-bridge-chat--header-name ()
  "Return the name of the session, or nil."
  (edn-bridge-chat--escape
   (or (edn-bridge-chat-get :session-display-name)
       (edn-bridge-chat-get :session-name))))

(defun edn-bridge-chat--escape (text)
  "Return TEXT, or nil, so that a mode line shows it as it is."
  (and (stringp text)
       (not (equal text ""))
       (replace-regexp-in-string "%" "%%" (edn-bridge-visible-label text))))

(defun edn-bridge-chat--where ()
  "Return on which other host the session is, or nil."
  (let ((host (edn-bridge-chat--escape (edn-bridge-chat-get :host))))
    (cond
     ((not (edn-bridge-edn-true-p (edn-bridge-chat-get :elsewhere))) nil)
     ((edn-bridge-edn-true-p (edn-bridge-chat-get :owner-lost))
      (propertize (if host (format "%s is lost" host) "no host")
                  'face 'edn-bridge-header-error))
     (host (format "on %s" host)))))

;;;; Footer

(defvar-local edn-bridge-chat--footer nil
  "Lines of the footer.")

(defvar-local edn-bridge-chat--statuses nil
  "Lines above the footer: an alist of a symbol and a list of strings.")

(defun edn-bridge-chat--on-footer (data)
  "Show DATA of `footer/updated'."
  (when (edn-bridge-chat-mine-p data)
    (setq edn-bridge-chat--footer
          (seq-filter (lambda (line)
                        (and (stringp line) (not (equal line ""))))
                      (list (plist-get data :path-line)
                            (plist-get data :stats-line)
                            (edn-bridge-chat--without-mode
                             (plist-get data :status-line)))))
    (edn-bridge-chat--show-footer)))

(defun edn-bridge-chat--without-mode (line)
  "Return LINE of the footer without the mode, which the header line has."
  (and (stringp line)
       (replace-regexp-in-string "\\`mode: [^ ]+\\( · \\|\\'\\)" "" line)))

(defun edn-bridge-chat-set-status (key lines)
  "Show LINES, a list of strings, above the footer.
They replace the earlier ones of KEY, a symbol."
  (setf (alist-get key edn-bridge-chat--statuses nil t) lines)
  (edn-bridge-chat--show-footer))

(defun edn-bridge-chat--show-footer ()
  "Show the footer and what stands above it."
  (edn-bridge-transcript-set-footer
   (append (mapcan (lambda (entry) (copy-sequence (cdr entry)))
                   (copy-sequence edn-bridge-chat--statuses))
           edn-bridge-chat--footer)))

(edn-bridge-chat-handle "footer/updated" #'edn-bridge-chat--on-footer)
(edn-bridge-chat-handle "turn/retry" #'edn-bridge-chat--on-retry)

(provide 'edn-bridge-chat-header)

;;; edn-bridge-chat-header.el ends here

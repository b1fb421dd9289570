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
       (format "retry %d%s" retry (edn-bridge-chat--retry-countdown)))
      ((edn-bridge-edn-true-p (edn-bridge-chat-get :is-compacting))
       "compacting")
      ((edn-bridge-chat-running-p)
       (let ((phase (edn-bridge-chat-word (edn-bridge-chat-get :phase))))
         (concat (if (member phase '(nil "idle")) "running" phase)
                 (edn-bridge-chat--waiting))))
      (t "idle"))
     (if (and (integerp pending) (> pending 0))
         (format " +%d" pending)
       ""))))

(defun edn-bridge-chat--retry-countdown ()
  "Return in how many seconds the model is called again, as text."
  (let* ((deadline (edn-bridge-chat-get :retry-deadline-ms))
         (seconds (and (numberp deadline)
                       (ceiling (- (/ deadline 1000.0) (float-time))))))
    (if (and seconds (> seconds 0))
        (format " in %d s" seconds)
      "")))

(defconst edn-bridge-chat--silence 3
  "After how many seconds without news it is said what is waited for.")

(defun edn-bridge-chat--waiting ()
  "Return what the running turn waits for and for how long, or nothing."
  (let ((seconds (and edn-bridge-chat--heard
                      (floor (- (float-time) edn-bridge-chat--heard)))))
    (if (or (null seconds) (< seconds edn-bridge-chat--silence))
        ""
      (format ", %s for %s"
              (if edn-bridge-chat-working
                  (edn-bridge-chat--escape
                   (string-join (seq-uniq (mapcar #'cdr edn-bridge-chat-working))
                                ", "))
                (concat "no word from "
                        (or (edn-bridge-chat--escape
                             (edn-bridge-chat-word
                              (edn-bridge-chat-get :model-id)))
                            "the model")))
              (if (< seconds 60)
                  (format "%d s" seconds)
                (format "%d:%02d" (/ seconds 60) (% seconds 60)))))))

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

(defun edn-bridge-chat--header-line ()
  "Return the header line of a chat buffer."
  (let ((conn edn-bridge-chat--conn))
    (string-join
     (delq nil
           (list
            (cond ((edn-bridge-rpc-ready-p conn) " ready")
                  ((or (edn-bridge-rpc-live-p conn)
                       (timerp edn-bridge-chat--return))
                   " connecting")
                  (t (propertize " disconnected" 'face 'edn-bridge-header-error)))
            (and (edn-bridge-rpc-ready-p conn)
                 (let ((state (edn-bridge-chat-run-state)))
                   (when (edn-bridge-chat-running-p)
                     (add-face-text-property 0 (length state)
                                             'mode-line-emphasis t state))
                   state))
            (edn-bridge-chat--where)
            (edn-bridge-chat--escape (edn-bridge-chat--model))
            (edn-bridge-chat--escape
             (edn-bridge-chat-word (edn-bridge-chat-get :mode)))
            (edn-bridge-chat--escape
             (or (edn-bridge-chat-get :session-display-name)
                 (edn-bridge-chat-get :session-name)))))
     (propertize " · " 'face 'edn-bridge-header-muted))))

(defun edn-bridge-chat--escape (text)
  "Return TEXT, or nil, so that a mode line shows it as it is."
  (and (stringp text)
       (not (equal text ""))
       (replace-regexp-in-string "%" "%%" (edn-bridge-visible-label text))))

(defun edn-bridge-chat--model ()
  "Return what the header line says about the model, or nil."
  (let ((label (edn-bridge-chat-get :header-model-label))
        (id (edn-bridge-chat-get :model-id))
        (level (edn-bridge-chat-word (edn-bridge-chat-get :thinking-level))))
    (or label
        (and id (if (member level '(nil "off"))
                    id
                  (format "%s (%s)" id level))))))

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
                            (plist-get data :status-line))))
    (edn-bridge-chat--show-footer)))

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

(provide 'edn-bridge-chat-header)

;;; edn-bridge-chat-header.el ends here
